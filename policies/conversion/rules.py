"""Rules of conversion, GA3xx: why a pod cannot be converted, is left alone, or should be looked at."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

MALFORMED = rule(
    "GA301",
    "A pod has the shape that Kubernetes gives it",
    default=Severity.DENY,
    why="""
    The API server checks the shape of a pod before it asks any webhook; a manifest on disk has been checked by nobody.
    What cannot be read cannot be converted, and would be refused on `kubectl apply` anyway.""",
    remedy="correct the manifest",
    source="k8s.io/api/core/v1/types.go",
    wrong="""
    spec:
      containers:
        name: train""",
    right="""
    spec:
      containers:
      - name: train""",
)

AMOUNT = rule(
    "GA302",
    "GPUs are asked for in whole numbers",
    default=Severity.DENY,
    why="""
    Extended resources are integers. `1000m` is 1 and is accepted; 0.5 GPU is not something that a device plugin or a
    claim can give. Parts of a GPU are MIG devices or shared GPUs, which have names of their own.""",
    remedy="ask for a whole number of GPUs, or for a MIG device such as nvidia.com/mig-1g.10gb",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateResourceQuantityValue (must be an integer)",
    wrong="""
    resources:
      limits:
        nvidia.com/gpu: "0.5" """,
    right="""
    resources:
      limits:
        nvidia.com/mig-1g.10gb: 1""",
)

UNEQUAL = rule(
    "GA303",
    "Limits and requests of a GPU are equal",
    default=Severity.DENY,
    why="""
    GPUs cannot be overcommitted, so Kubernetes demands that limit and request are the same number. The API server would
    refuse the pod after conversion was decided; the words here say which two numbers differ.""",
    remedy="write the limit only; Kubernetes copies it to the request",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateContainerResourceRequirements",
    wrong="""
    resources:
      limits: {nvidia.com/gpu: 2}
      requests: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      limits: {nvidia.com/gpu: 2}""",
)

TOO_MANY = rule(
    "GA304",
    "A pod asks for at most 32 devices",
    default=Severity.DENY,
    why="""
    A ResourceClaim can hold 32 devices over all its requests. No node has more than 16 whole GPUs; a pod that asks for
    more than 32 MIG devices or shares has to be split.""",
    remedy="spread the work over several pods",
    source="k8s.io/api/resource/v1 types.go AllocationResultsMaxSize",
    wrong="""
    resources:
      limits: {nvidia.com/mig-1g.10gb: 40}""",
    right="""
    resources:
      limits: {nvidia.com/mig-1g.10gb: 20}   # in each of two pods""",
)

PROFILE = rule(
    "GA305",
    "MIG devices are asked for by a profile that DRA drivers publish",
    default=Severity.DENY,
    why="""
    NVIDIA's DRA driver publishes MIG devices whose compute instance fills their GPU instance (`2g.10gb`). Smaller
    compute instances (`1c.2g.10gb`) exist only under the device plugin, and a name that is no profile exists nowhere.""",
    remedy="ask for a profile of the form nvidia.com/mig-<slices>g.<memory>gb",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/mig.go",
    wrong="""
    resources:
      limits: {nvidia.com/mig-1c.2g.10gb: 1}""",
    right="""
    resources:
      limits: {nvidia.com/mig-2g.10gb: 1}""",
)

SHARED = rule(
    "GA306",
    "Shared GPUs are converted only where the DRA driver offers shares",
    default=Severity.WARN,
    why="""
    Time-slicing and MPS replicas of the device plugin have no equivalent in DRA unless the driver publishes devices
    with a consumable capacity `shares` (ConsumableShares). Converting anyway would give the pod a whole GPU that up to
    a dozen pods shared before. The pod is left as it is and runs through the device plugin.""",
    remedy="keep this pod on device-plugin nodes, or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go",
    wrong="""
    # in a cluster without ConsumableShares
    resources:
      limits: {nvidia.com/gpu.shared: 1}""",
    right="""
    resources:
      limits: {nvidia.com/gpu: 1}""",
)

LABEL = rule(
    "GA307",
    "A node label that describes GPUs has an exact equivalent on a device",
    default=Severity.DENY,
    why="""
    Where GPUs are handed out by DRA, nodes lose the labels of GPU Feature Discovery, and a pod that selects on them
    stays Pending for ever. Conversion turns such conditions into selectors on devices, but only exact ones: a pod must
    not land on another GPU than it asked for. Some labels describe the node, or count things, and no device attribute
    says the same.""",
    remedy="drop the condition, or replace it by one on nvidia.com/gpu.product, gpu.memory or gpu.family",
    source="github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery; dra-driver-nvidia-gpu deviceinfo.go",
    wrong="""
    nodeSelector:
      nvidia.com/gpu.count: "8" """,
    right="""
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3""",
)

TERMS = rule(
    "GA308",
    "OR-ed affinity terms agree on the node part or on the GPU part",
    default=Severity.DENY,
    why="""
    Node selector terms are alternatives. "Zone a with an A100, or zone b with an H100" cannot be told as one condition
    on nodes and one on devices: each alone would also allow zone a with an H100. Terms that differ in only one of the
    two parts can.""",
    remedy="let the terms differ in the node part only or in the GPU part only, or make two workloads",
    source="k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
    wrong="""
    nodeSelectorTerms:
    - matchExpressions:
      - {key: topology.kubernetes.io/zone, operator: In, values: [a]}
      - {key: nvidia.com/gpu.family, operator: In, values: [ampere]}
    - matchExpressions:
      - {key: topology.kubernetes.io/zone, operator: In, values: [b]}
      - {key: nvidia.com/gpu.family, operator: In, values: [hopper]}""",
    right="""
    nodeSelectorTerms:
    - matchExpressions:
      - {key: topology.kubernetes.io/zone, operator: In, values: [a, b]}
      - {key: nvidia.com/gpu.family, operator: In, values: [ampere, hopper]}""",
)

AMBIGUOUS = rule(
    "GA309",
    "nvidia.com/gpu means one kind of device",
    default=Severity.DENY,
    why="""
    Under the MIG strategy `single` a node hands out MIG devices under the name nvidia.com/gpu. Where some nodes do and
    others hand out whole GPUs, or devices of another profile, the device plugin let chance decide; a claim must say.""",
    remedy="say which one",
    source="github.com/NVIDIA/k8s-device-plugin README, MIG strategies",
    wrong="""
    # on a cluster with whole GPUs and with MIG devices in the single strategy
    resources:
      limits: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      limits: {nvidia.com/mig-1g.5gb: 1}""",
)

NO_CLASS = rule(
    "GA310",
    "The DeviceClass that a claim names exists",
    default=Severity.DENY,
    why="""
    A claim of a class that does not exist keeps its pod Pending ("device class does not exist"). NVIDIA's DRA driver
    brings the classes gpu.nvidia.com and mig.nvidia.com; where they are missing, it is not installed.""",
    remedy="install NVIDIA's DRA driver, or remove the label gpu-admission.io/dra from the namespace",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
    wrong="""
    # kubectl get deviceclass: No resources found
    metadata:
      labels: {gpu-admission.io/dra: enabled}""",
    right="""
    # kubectl get deviceclass: gpu.nvidia.com, mig.nvidia.com
    metadata:
      labels: {gpu-admission.io/dra: enabled}""",
)

TOO_LONG = rule(
    "GA311",
    "The conditions on a device fit into CEL expressions of 10 KiB",
    default=Severity.DENY,
    why="""
    The API server refuses a device selector longer than 10,240 bytes, and with it the claim of every pod made from the
    template. Only very long lists of products reach that.""",
    remedy="name fewer values, or use nvidia.com/gpu.family or gpu.memory instead of a list of products",
    source="k8s.io/api/resource/v1 types.go CELSelectorExpressionMaxLength",
    wrong="""
    - {key: nvidia.com/gpu.product, operator: In, values: [...hundreds of products...]}""",
    right="""
    - {key: nvidia.com/gpu.family, operator: In, values: [ampere, hopper]}""",
)

NATIVE_QUOTA = rule(
    "GA312",
    "Conversion does not switch a ResourceQuota off",
    default=Severity.DENY,
    setting="conversion.nativeQuota",
    why="""
    A ResourceQuota on requests.nvidia.com/gpu counts what pods ask for by that name. A converted pod asks by a claim,
    which the quota counts only if the DeviceClass carries the name (spec.extendedResourceName) and the API server is
    1.36 or newer, and never for quotas with scopes. Otherwise the namespace could take every GPU.""",
    remedy="limit the namespace by a GPUQuota and remove the ResourceQuota, or set extendedResourceName on the DeviceClass",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go",
    wrong="""
    kind: ResourceQuota
    spec:
      hard: {requests.nvidia.com/gpu: 8}     # and a DeviceClass without extendedResourceName""",
    right="""
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com}
    spec:
      extendedResourceName: nvidia.com/gpu""",
)

UNSATISFIABLE = rule(
    "GA313",
    "Some device of the cluster matches what is asked",
    default=Severity.WARN,
    setting="conversion.unsatisfiable",
    why="""
    No ResourceSlice holds a device like this now, so the pod will be Pending. That may pass: an autoscaled cluster has
    no GPU node until the first pod asks, and a driver upgrade empties the slices. It may also be a misspelt product.""",
    remedy="compare with what exists, or wait for such a node",
    source="ResourceSlices of the cluster",
    wrong="""
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100""",
    right="""
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3""",
)

TWICE = rule(
    "GA314",
    "A node hands out its GPUs by the device plugin or by DRA",
    default=Severity.WARN,
    why="""
    Device plugin and DRA driver know nothing of each other. Where both run on a node, one GPU can be given to two pods
    at once.""",
    remedy="turn the device plugin off on these nodes (label nvidia.com/gpu.deploy.device-plugin=false)",
    source="github.com/NVIDIA/aicr issue 332; gpu-operator validation of ClusterPolicy and GPUCluster",
    wrong="""
    # node a: status.allocatable nvidia.com/gpu: 8, and a ResourceSlice of gpu.nvidia.com with nodeName: a""",
    right="""
    # node a: only the ResourceSlice; node b: only status.allocatable""",
)

OTHER_SCHEDULER = rule(
    "GA315",
    "Pods are converted for schedulers that allocate claims",
    default=Severity.WARN,
    setting="conversion.schedulers",
    why="""
    Claims are allocated by the scheduler. A scheduler without DRA would leave the pod Pending, or count its GPUs as
    none. Pods of schedulers that are not listed in the settings are left alone.""",
    remedy="list the scheduler in conversion.schedulers if it allocates ResourceClaims",
    source="KEP-4381",
    wrong="""
    spec:
      schedulerName: my-scheduler""",
    right="""
    kind: GPUAdmissionPolicy
    spec:
      conversion:
        schedulers: [default-scheduler, my-scheduler]""",
)

KUEUE = rule(
    "GA316",
    "A bare pod that Kueue queues keeps its resource names",
    default=Severity.WARN,
    why="""
    Kueue counts a bare pod by the resources in its spec when the pod is created, and holds it by a gate. Converted, it
    would be counted by nobody. Pods of queued Jobs are converted: Kueue counted the Job.""",
    remedy="queue a Job instead of a bare pod",
    source="Kueue plain pods documentation; KEP-2941",
    wrong="""
    kind: Pod
    metadata:
      labels: {kueue.x-k8s.io/queue-name: research}""",
    right="""
    kind: Job
    metadata:
      labels: {kueue.x-k8s.io/queue-name: research}""",
)

OPTED_OUT = rule(
    "GA317",
    "A pod that opts out is left alone",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    why="""
    The label gpu-admission.io/dra: disabled on a pod keeps it with the device plugin although its namespace converts,
    if the administrator allows it. It then runs only where the device plugin hands out GPUs.""",
    remedy="remove the label gpu-admission.io/dra from the pod to have it converted",
    source="docs/conversion.md",
    wrong="""
    metadata:
      labels: {gpu-admission.io/dra: disabled}""",
    right="""
    metadata:
      labels: {}""",
)

OPT_OUT_REFUSED = rule(
    "GA318",
    "Opting out is the administrator's to allow",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    why="""
    The administrator has turned conversion.allowPodOptOut off, so the label on the pod has no effect and the pod is
    converted like every other.""",
    remedy="remove the label, or ask the administrator to allow it",
    source="docs/conversion.md",
    wrong="""
    metadata:
      labels: {gpu-admission.io/dra: disabled}""",
    right="""
    metadata:
      labels: {}""",
)

READDED = rule(
    "GA319",
    "What is added after conversion equals what was asked",
    default=Severity.DENY,
    why="""
    A LimitRange with a default for GPUs, or another webhook, can put a GPU resource back into a converted pod. The same
    amount in the same container is removed again; another amount, or a container that has no request in the claim, is a
    second wish that contradicts the first.""",
    remedy="write the GPUs of every container into the pod (0 where it needs none), or remove the LimitRange's default",
    source="k8s.io/apiserver admission order: LimitRanger runs again after mutating webhooks",
    wrong="""
    kind: LimitRange
    spec:
      limits:
      - type: Container
        default: {nvidia.com/gpu: 1}""",
    right="""
    kind: LimitRange
    spec:
      limits:
      - type: Container
        default: {cpu: 1}""",
)

STILL_ASKS = rule(
    "GA320",
    "A converted pod does not also ask the device plugin",
    default=Severity.DENY,
    why="""
    The pod refers to the claim that conversion made and asks for the extended resource as well. It would get a second
    set of devices from the device plugin, or stay Pending for want of one.""",
    remedy="find the webhook that changes pods after conversion.gpu-admission.io and let it run before",
    source="docs/conversion.md",
    wrong="""
    resources:
      claims: [{name: gpu, request: train}]
      limits: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      claims: [{name: gpu, request: train}]""",
)

ESCAPED = rule(
    "GA321",
    "A pod of a converting namespace is converted",
    default=Severity.DENY,
    why="""
    The pod would have been converted, but is not: a later webhook added the GPU resource, or the conversion webhook was
    not asked. Where GPUs are handed out by DRA it would stay Pending.""",
    remedy="create the pod again; if it happens again, find the webhook that adds the resource",
    source="docs/conversion.md",
    wrong="""
    resources:
      limits: {nvidia.com/gpu: 1}""",
    right="""
    resources:
      claims: [{name: gpu, request: train}]""",
)

FOREIGN_TEMPLATE = rule(
    "GA322",
    "A template named by its content has that content",
    default=Severity.DENY,
    why="""
    Templates are named by a hash of their spec. One of this name with another spec was written or changed by somebody
    else; the pod would get devices that it did not ask for.""",
    remedy="delete the ResourceClaimTemplate; it is made again when a pod needs it",
    source="docs/conversion.md",
    wrong="""
    # gpu-0123456789abcdef, edited by hand""",
    right="""
    # kubectl delete resourceclaimtemplate gpu-0123456789abcdef""",
)

STRATEGY = rule(
    "GA323",
    "The namespace names a conversion strategy that exists",
    default=Severity.DENY,
    why="""
    The label gpu-admission.io/dra-strategy chooses how pods are converted. This version knows the strategy template. A
    pod is not converted by another strategy than the one that was chosen.""",
    remedy="set gpu-admission.io/dra-strategy: template on the namespace, or remove the label",
    source="docs/conversion.md",
    wrong="""
    kind: Namespace
    metadata:
      labels: {gpu-admission.io/dra: enabled, gpu-admission.io/dra-strategy: templates}""",
    right="""
    kind: Namespace
    metadata:
      labels: {gpu-admission.io/dra: enabled}""",
)

NAMESPACE_UNKNOWN = rule(
    "GA324",
    "Whether a namespace converts its pods is known",
    default=Severity.WARN,
    why="""
    Conversion is chosen by a label on the namespace. Offline, the namespace may be in none of the files; the pod is
    then reviewed as if it did not convert, which may not be what the cluster will do.""",
    remedy="add the Namespace to the files, or give the cluster's with --cluster",
    source="docs/conversion.md",
    wrong="""
    # gpu-admission review pod.yaml""",
    right="""
    # gpu-admission review pod.yaml namespace.yaml""",
)
