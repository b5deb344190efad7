"""The GPUs of a cluster, and which of them a pod gets: one answer for every subject."""

from policies.fleet.gpu_requests import (
    GPUAccess,
    GPURequest,
    Loss,
    RequestKind,
    container_requests,
    extended_requests,
    gpu_access,
    gpu_requests,
    holds_gpu,
    may_request_gpu,
    probably_gets_gpu,
    unmet_requests,
)

__all__ = [
    "GPUAccess",
    "GPURequest",
    "Loss",
    "RequestKind",
    "container_requests",
    "extended_requests",
    "gpu_access",
    "gpu_requests",
    "holds_gpu",
    "may_request_gpu",
    "probably_gets_gpu",
    "unmet_requests",
]
