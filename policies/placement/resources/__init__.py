"""Resources: checks that the resources that a pod requests exist on a node and can be allocated there."""
