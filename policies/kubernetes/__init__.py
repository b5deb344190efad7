"""Words of Kubernetes: field paths, quantities, pods, selectors, tolerations, names, ResourceSlices."""
