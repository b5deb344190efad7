"""The fields of claims, classes, DeviceTaintRules and ComputeDomains, by the version of the API.

Source: k8s.io/api/resource/{v1,v1beta2,v1beta1}/types.go of 1.36, of DeviceTaintRules also v1alpha3 and v1 of 1.37; the CRD of
dra-driver-nvidia-gpu.
"""

from __future__ import annotations

from policies.kubernetes.schema import Field, parse_schema

VERSIONS = ("v1", "v1beta2", "v1beta1")
"""The versions of resource.k8s.io that have claims, newest first."""

_BLOCKS = {
    "metadata": """
name: string
generateName: string
namespace: string
selfLink: string
uid: string
resourceVersion: string
generation: integer
creationTimestamp: string
deletionTimestamp: string
deletionGracePeriodSeconds: integer
labels: {string}
annotations: {string}
ownerReferences: [object]
finalizers: [string]
managedFields: [object]
""",
    "object": """
apiVersion: string
kind: string
metadata: object
  + metadata
status: object
""",
    "selectors": """
selectors: [object]
  cel: object
    expression: string
""",
    "asked": """
deviceClassName: string
+ selectors
allocationMode: string
count: integer at most 9223372036854775807
tolerations: [object]
  key: string
  operator: string
  value: string
  effect: string
  tolerationSeconds: integer at most 9223372036854775807
capacity: object
  requests: {quantity}
""",
    "configured": """
opaque: object
  driver: string
  parameters: object
""",
    "first": """
firstAvailable: [object]
  name: string
  + asked
""",
    "claim": """
devices: object
  requests: [object]
    name: string
    exactly: object
      + asked
      adminAccess: boolean
    + first
  + joined
""",
    "flat": """
devices: object
  requests: [object]
    name: string
    + asked
    adminAccess: boolean
    + first
  + joined
""",
    "joined": """
constraints: [object]
  requests: [string]
  matchAttribute: string
  distinctAttribute: string
config: [object]
  requests: [string]
  + configured
""",
}

_CLAIM = """
+ object
spec: object
  + {claim}
"""
_TEMPLATE = """
+ object
spec: object
  metadata: object
    + metadata
  spec: object
    + {claim}
"""
_DEVICE_CLASS = """
+ object
spec: object
  + selectors
  config: [object]
    + configured
  extendedResourceName: string
"""
_COMPUTE_DOMAIN = """
+ object
spec: object
  numNodes: integer at least 0
  channel!: object
    allocationMode: string one of "All", "Single"
    resourceClaimTemplate!: object
      name!: string
"""
_TAINT_RULE = """
+ object
spec: object
  deviceSelector: object
    driver: string
    pool: string
    device: string
  taint: object
    key: string
    value: string
    effect: string
    timeAdded: string
"""


def _schema(text: str) -> Field:
    return parse_schema(text, _BLOCKS)


_SCHEMAS = {
    **{
        (kind, version): _schema(text.format(claim="flat" if version == "v1beta1" else "claim"))
        for kind, text in (("ResourceClaim", _CLAIM), ("ResourceClaimTemplate", _TEMPLATE))
        for version in VERSIONS
    },
    **{("DeviceClass", version): _schema(_DEVICE_CLASS) for version in VERSIONS},
    **{("DeviceTaintRule", version): _schema(_TAINT_RULE) for version in ("v1", "v1beta2", "v1alpha3")},
    ("ComputeDomain", "v1beta1"): _schema(_COMPUTE_DOMAIN),
}

EXACT_REQUEST_FIELDS = (*_schema("+ asked").fields, "adminAccess")
"""The fields of a request for devices of one class: under `exactly`, or in v1beta1 in the request itself."""


def schema_of(kind: str, version: str) -> Field | None:
    """The schema of an object; None for versions that do not exist."""
    return _SCHEMAS.get((kind, version))
