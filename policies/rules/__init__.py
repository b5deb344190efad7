"""Rules, and the words of a decision: findings, settings, waivers and charges."""
