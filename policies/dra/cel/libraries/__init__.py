"""The functions that the DRA environment of Kubernetes 1.36 offers, one file for each library of cel-go or Kubernetes."""
