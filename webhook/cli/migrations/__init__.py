"""`gpu-admission migrate`: reads files, rewrites the objects in them, and reports what was left."""
