"""The functions of the DRA environment of Kubernetes 1.36, by library of cel-go or Kubernetes."""
