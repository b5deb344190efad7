"""Demands: the devices that pods and claims request, and the devices that they hold."""
