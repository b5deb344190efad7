"""Replaces every word of a snapshot that is not public, consistently in all objects."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any
from uuid import UUID

from policies.conversion.templates import content_name
from policies.kubernetes.names import IGNORE
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.start_failures import known_text
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import DRA_DRIVER_NAMESPACES
from policies.rules.settings.exemptions import NEVER_MATCHED
from webhook.cli.snapshots.reductions import REDACTED

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource


_OF_KINDS = {
    "Namespace": "namespace",
    "Node": "node",
    "Pod": "pod",
    "NodePool": "nodepool",
    "ResourceClaim": "claim",
    "ResourceClaimTemplate": "template",
    "ResourceSlice": "slice",
    "PodGroup": "group",
}
"""The word that replaces names of a kind, before a number; those of other kinds become `name`."""
_OF_FIELDS = {
    "namespace": "namespace",
    "matchNames": "namespace",
    "nodeName": "node",
    "pool": "node",
    "resourceClaimName": "claim",
    "resourceClaimTemplateName": "template",
    "serviceAccountName": "account",
    "serviceAccount": "account",
    "podGroupName": "group",
    "image": "image",
    "repository": "image",
    "registry": "image",
    "kind": "Kind",
    "uid": "uid",
    "uuid": "uid",
    "labels": "label",
    "matchLabels": "label",
    "nodeSelector": "label",
    "env": "variable",
    "secret": "secret",
    "secretRef": "secret",
    "secretKeyRef": "secret",
    "imagePullSecrets": "secret",
    "configMap": "config",
    "configMapRef": "config",
    "configMapKeyRef": "config",
}
"""The same for the texts of fields, so that people see what a word was. The pools of NVIDIA's DRA driver are named after nodes."""
_SORTS = frozenset({"name", *_OF_KINDS.values(), *_OF_FIELDS.values()})
_PROSE = frozenset({"message", "summary", "description", "displayName", "ips", "hardwareAddress"})
"""Fields with sentences for people, and addresses. Of a message, the text of a known start failure is kept, with other names."""
_REASON = re.compile(r"because [^;\n]+")
"""The reason of a waiver, which is a sentence too."""
_ADDRESS = r"(?<![0-9-])(?<![0-9]\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\.?[0-9]|[a-zA-Z_-])"
"""An IPv4 address: registries and nodes have such names."""
_WORD = re.compile(rf"{_ADDRESS}|(?:[^\W_]|[^\x00-\x7f])+(?:[-_]+(?:[^\W_]|[^\x00-\x7f])+)*")
"""An address or a word; everything between words is kept, such as dots, slashes, quotes and wildcards."""
_HARDWARE = "|".join(
    {
        *(re.escape(part) for product in KNOWN_PRODUCTS for part in product.split("-")),
        *("MIG", "SHARED", "SXM[0-9]", r"[0-9]+(?:GB|gb)", r"[0-9]+[cg]", r"[0-9]+Q", "me", "gfx", "all"),
    }
)
_PUBLIC = re.compile(
    rf"(?:{_HARDWARE})(?:-(?:{_HARDWARE}))*"
    r"|v?[0-9]+(?:(?:alpha|beta)[0-9]+)?|[0-9]+(?:-[0-9]+)+"
    r"|[0-9]+(?:e[0-9]+|[num]|[kKMGTPE]i?B?|gb?|[cshd]|ms)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}|[0-9]+Z"
    r"|[0-9]+(?:-[0-9]+)*-(?:distroless|grid|py|rc|rhcos|rhel|ubi|ubuntu)[0-9]*|gpu-operator-v[0-9]+"
    r"|GA[0-9]{3}|DCGM_[A-Z0-9_]+|(?:all-|mig-)[0-9]+g|nvidia[0-9]+|0x[0-9A-F]{8}"
)
"""Products, numbers, quantities, times, versions of NVIDIA's images, rules, metrics, MIG profiles, device files and device IDs."""
_DIGIT = "[0-9a-fA-F]"
_HEX = re.compile(
    rf"(GPU-|MIG-|MIG-GPU-|)({_DIGIT}{{8}}-{_DIGIT}{{4}}-{_DIGIT}{{4}}-{_DIGIT}{{4}}-{_DIGIT}{{12}}|{_DIGIT}{{32,}})"
    rf"|(gpu-)({_DIGIT}{{16}})"
)
"""UUIDs of objects and devices, digests, and names of our templates. They are replaced with others of their form."""
_FIRST_ADDRESS = IPv4Address("198.18.0.0")
"""Before the addresses that replace others; those for benchmarks are in no network."""
_HOST = re.compile(r"(?:.*-)?[0-9]{1,3}(?:-[0-9]{1,3}){3}")
"""A name with an address, as nodes of AWS have: `ip-10-1-2-3`."""
_ACCOUNT = re.compile(r"[0-9]{9,}")
"""The number of an account or a project in the name of an image; shorter numbers are versions and dates."""

_OF_CLAIM = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(.+)")
"""The name of a CDI device of NVIDIA's DRA driver: the uid of the claim and the device."""


class ReplacedNames:
    """Replaces every word that is not public, such as by `namespace-1`; equal words by the same."""

    def __init__(self) -> None:
        namespaces = (*DEFAULTS.configuration.operator_namespaces, *DRA_DRIVER_NAMESPACES, *NEVER_MATCHED)
        self._replacements = {word: word for word in (*PUBLIC_WORDS, *namespaces)}
        self._counts: Counter[str] = Counter()

    def rename(self, document: Object) -> Object:
        """An object of a snapshot with other names."""
        metadata = dict(document["metadata"])
        metadata.pop("generateName", None)
        kind, name = document.get("kind"), str(metadata.pop("name", ""))
        # The name comes first, so that it is replaced with the word of its kind.
        renamed_to = self._text(_OF_KINDS.get(str(kind), "name"), name)
        renamed = self._value("", {field: part for field, part in document.items() if field != "metadata"})
        if kind == "ResourceClaimTemplate" and name == content_name(document.get("spec")):
            renamed_to = self._replacements[name] = content_name(renamed["spec"])
        return {**renamed, "metadata": {"name": renamed_to, **self._value("metadata", metadata)}}

    def _value(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            if field == "message" and (text := known_text(value, partial(self._text, "name"), REDACTED)):
                return text
            return REDACTED if field in _PROSE and value else self._text(_OF_FIELDS.get(field, "name"), value)
        if isinstance(value, list):
            return [self._value(field, item) for item in value]
        if not isinstance(value, dict):
            return value
        if field == "annotations" and isinstance(waiver := value.get(IGNORE), str):
            value = {**value, IGNORE: _REASON.sub(f"because {REDACTED}", waiver)}
        sort = _OF_FIELDS.get(field, "name")
        return {
            self._text(sort, key): self._value(field if key == "name" else key, part) for key, part in value.items()
        }

    def resource(self, resource: Resource) -> Resource:
        """A resource with other names, as objects of a renamed kind have them."""
        return replace(
            resource,
            kind=self._text("Kind", resource.kind),
            plural=self._text("name", resource.plural),
            group=self._text("name", resource.group),
        )

    def namespace(self, name: str) -> str:
        """The other name of a namespace; empty for an empty one."""
        return self._text("namespace", name)

    def _text(self, sort: str, text: str) -> str:
        return self._replacements.get(text) or _WORD.sub(partial(self._word, sort), text)

    def _word(self, sort: str, found: re.Match[str]) -> str:
        word = found[0]
        if word not in self._replacements:
            # Pods, requests and devices are numbered: `train-0` belongs to `train`.
            base, dash, number = word.rpartition("-")
            is_chosen = _HEX.fullmatch(word) or _HOST.fullmatch(word) or (sort == "image" and _ACCOUNT.fullmatch(word))
            if not is_chosen and _PUBLIC.fullmatch(word):
                self._replacements[word] = word
            elif not is_chosen and (of_claim := _OF_CLAIM.fullmatch(word)):
                self._replacements[word] = f"{self._text(sort, of_claim[1])}-{self._text(sort, of_claim[2])}"
            elif not is_chosen and base and number.isdigit() and base not in _SORTS:
                self._replacements[word] = self._text(sort, base) + dash + number
            else:
                self._replacements[word] = self._replacement(sort, word)
        return self._replacements[word]

    def _replacement(self, sort: str, word: str) -> str:
        if digits := _HEX.fullmatch(word):
            self._counts["hex"] += 1
            prefix, replaced = digits[1] or digits[3] or "", digits[2] or digits[4]
            number = f"{self._counts['hex']:0{len(replaced.replace('-', ''))}x}"
            return prefix + (str(UUID(number)) if "-" in replaced else number)
        if "." in word:
            self._counts["address"] += 1
            return str(_FIRST_ADDRESS + self._counts["address"])
        self._counts[sort] += 1
        # Identifiers of CEL have no dashes.
        return f"{sort}{'-' if '-' in word else ''}{self._counts[sort]}"


PUBLIC_WORDS = frozenset(
    """
0 abs ABSENT ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED access action Active activeDeadlineSeconds ada-lovelace add
additionalLabels address addressableMemory addressingMode admin-access adminAccess administrator admission admissionregistration
admissionReviewVersions admitted affinity agent-not-ready AGGREGATE aligned ALL All all all-balanced all-disabled all-enabled
AllAlpha AllBeta allNodes allocatable allocate allocatedResourcesStatus allocation allocationMode allow-deletion allowed
allowMultipleAllocations allowPodOptOut alpha Always amazonaws amd64 Ampere ampere annotations any api apiextensions apiGroups
apiserver apiVersion apiVersions app appArmorProfile apply applyConsumableShares apps arch architecture argoproj args arm64
array artifacts artifactsDir as asApproximateFloat asInteger at attribute attributes audit authentication authorization Auto
auto automountServiceAccountToken autoUpgrade Available avoidSharedGPUs aws azure backendPolicy base base64 baseline baseList
baseMap baseRefs batch because BestEffort bin binaryData BinarySI bind bindingConditions bindingFailureConditions bindsToNode
blackwell blockOwnerDeletion blocks BOOL bool boolean Bound brand Burstable by-its-author by-people BYTES bytes c CAP_ALL
CAP_SYS_ADMIN capabilities capability capable capacity capacity-type ccManager CDI cdi cdi-annotations cdi-cri cdi-root
cdiAnnotationPrefix ceil cel certConfig certificates changed channel channelIDs channels charAt charge chart check-pods
check-unconverted-pods ci CIDR cidr cilium claim claimName claims class classes clientConfig clients clique cliqueNames cliques
cloud cloud-native cloudprovider Cluster cluster cluster-autoscaler cluster-policy ClusterIP clusterPermissions clusterpolicies
ClusterPolicy clusterPolicy clusterPolicyDeletion ClusterPolicyList ClusterQueue ClusterRole ClusterRoleBinding
ClusterRoleBindingList clusterrolebindings ClusterRoleList clusterroles ClusterTrainingRuntime ClusterTrainingRuntimeList
clustertrainingruntimes com command common compareTo Complete completions component component-helpers compute compute-domain
compute-domain-controller compute-domain-daemon compute-domain-default-channel compute-domain-kubelet-plugin ComputeDomain
computeDomain computedomain ComputeDomainChannelConfig ComputeDomainClique ComputeDomainCliques ComputeDomainList computeDomains
computedomains concatList condition conditions conf config config-manager ConfigMap configMap configMapKeyRef ConfigMapList
configMapName configMapRef configmaps configuration configured CONNECT constraints CONSUMABLE_SHARES ConsumableShares
consumedCapacity consumesCounters Container container container-toolkit CONTAINER_TOOLKIT_IMAGE ContainerCannotRun
ContainerCreating containerd CONTAINERD_CONFIG CONTAINERD_RUNTIME_CLASS CONTAINERD_SET_AS_DEFAULT CONTAINERD_SOCKET
containerDriverRoot containerPort containerRuntimeVersion containers containerStatuses contains containsCIDR containsIP
contended ContextualLogging control control-plane controller controllers conversion conversion-changes conversion-check convert
convert-pods converted coordination copy copy-engines copyEngines coreos cost count Counted counted counter counters counterSet
counts coveredResources cpu CrashLoopBackOff CrashOnNVLinkFabricErrors CREATE create CreateContainerConfigError
CreateContainerError created creationTimestamp cri-dockerd cri-o CRIO_SET_AS_DEFAULT CronJob CronJobList cronjobs csi csv CUDA
cuda CUDA_VERSION cudaComputeCapability cudaDriverVersion custom-dcgm-metrics custom-mig-config custom-mig-parted-config
CustomResourceDefinition CustomResourceDefinitionList customresourcedefinitions daemon DaemonSet DaemonSetList daemonsets
dashboard data dataLocal date dcgm dcgm-exporter dcgm-metrics dcgmExporter DecimalSI decode decoder decoders dedicated Default
default default-gpu-clients default-mig-parted-config default-scheduler default-vgpu-devices-config
defaultActiveThreadPercentage defaultMode defaultPerDevicePinnedMemoryLimit defaultPinnedDeviceMemoryLimit defaultRequest
defaultRuntime defaultWorkload DELETE Delete delete deleteEmptyDir DeletionCandidateOfClusterAutoscaler
deletionGracePeriodSeconds deletionTimestamp Deny deny deploy Deployment DeploymentList deployments description dev
DEV_ACCOUNTING_DATA DEV_BOARD_POWER_PROFILE_ENFORCED_MASK DEV_BOARD_POWER_PROFILE_REQUESTED_MASK
DEV_BOARD_POWER_PROFILE_SUPPORTED_MASK DEV_BRAND DEV_CLOCKS_SUPPORTED DEV_COMPUTE_PIDS DEV_CREATABLE_VGPU_TYPE_IDS
DEV_DIAG_STATUS DEV_ECC_INFOROM_VER DEV_ENC_STATS DEV_ENFORCED_POWER_PROFILE_MASK DEV_FBC_SESSIONS_INFO DEV_FBC_STATS
DEV_GRAPHICS_PIDS DEV_INFOROM_IMAGE_VER DEV_MIG_ATTRIBUTES DEV_MIG_CI_INFO DEV_MIG_GI_INFO DEV_NAME DEV_OEM_INFOROM_VER
DEV_POWER_INFOROM_VER DEV_PROCESS_ACCOUNTING_STATS DEV_REQUESTED_POWER_PROFILE_MASK DEV_SERIAL DEV_SUPPORTED_CLOCKS
DEV_SUPPORTED_TYPE_INFO DEV_SUPPORTED_VGPU_TYPE_IDS DEV_UUID DEV_VALID_POWER_PROFILE_MASK DEV_VBIOS_VERSION
DEV_VGPU_CREATABLE_IDS DEV_VGPU_ENC_SESSIONS_INFO DEV_VGPU_ENC_STATS DEV_VGPU_FBC_SESSIONS_INFO DEV_VGPU_FBC_STATS
DEV_VGPU_INSTANCE_IDS DEV_VGPU_INSTANCE_INFO DEV_VGPU_PER_PROCESS_UTILIZATION DEV_VGPU_PROCESS_UTIL_INFO DEV_VGPU_SUPPORTED_IDS
DEV_VGPU_SUPPORTED_INFO DEV_VGPU_TYPE_CLASS DEV_VGPU_TYPE_INFO DEV_VGPU_TYPE_LICENSE DEV_VGPU_TYPE_NAME DEV_VGPU_UTIL_INFO
DEV_VGPU_UTILIZATIONS DEVICE Device device device-discovery-strategy device-filter device-id-strategy device-list-strategy
device-plugin device-plugin-config device-plugins DEVICE_ID_STRATEGY DEVICE_LIST_STRATEGY DEVICE_PLUGIN_IMAGE DeviceClass
deviceClass deviceclass DeviceClasses deviceclasses DeviceClassList deviceClassMappings deviceClassName deviceClassNames
DeviceClassParameters deviceDiscoveryStrategy DeviceGroup deviceID deviceIDStrategy deviceListStrategy DeviceMetadata
devicePlugin devices devices-or-wishes deviceSelector DeviceTaintRule DeviceTaintRules devicetaintrules devtools directory
disabled disk-pressure disruption distinct distinctAttribute distributed DNS1035Label dns1035Label DNS1035LabelPrefix
dns1035LabelPrefix DNS1123Label dns1123Label DNS1123LabelPrefix dns1123LabelPrefix DNS1123Subdomain dns1123Subdomain
DNS1123SubdomainPrefix dns1123SubdomainPrefix dnsConfig dnsPolicy docker dockerconfigjson document DoesNotExist domain domainID
double downwardAPI dpu DRA dra dra-driver-nvidia-gpu dra-strategy DRAAdminAccess DRAConsumableCapacity DRADevice
DRADeviceBindingConditions DRADeviceTaints DRADriver draDriver DRAExtendedResource drain DRAIN_DELETE_EMPTYDIR_DATA
DRAIN_POD_SELECTOR_LABEL DRAIN_TIMEOUT_SECONDS DRAIN_USE_FORCE DRAListTypeAttributes DRAPartitionableDevices DRAPrioritizedList
driver driver-install-dir driver-version DRIVER_IMAGE DRIVER_MANAGER_IMAGE DRIVER_VERSION driverInstallDir driverManaged
driverManager driverType driverVersion Drop drop DropEqual dropequal duration DYN dyn dynamic-resource-allocation DynamicMIG
DynamicResourceAllocation DynamoGraphDeployment e effect eks else emptyDir enable ENABLE_AUTO_DRAIN ENABLE_GPU_POD_EVICTION
enableAPIDevice enabled enablePodLabels enablePodUID enableServiceLinks encode encoder encoders endsWith Enforce enforce
enforce-converted-pods enforce-quota Enforced enforced engines entries enum env envFrom envvar ephemeral ephemeral-storage
ephemeralContainers ephemeralcontainers Equal Equivalent equivalent ErrImagePull error errorString etc Event EventList events
eventTime EVERYTHING EvictionInProgress ExactCount exactly exclusive executor exempt exemptions exemptNamespaces
exemptServiceAccounts Exists exists exists_one existsOne expireAfter explain exporter expression extended
extended-resource-claim extended-resources extendedResourceClaimStatus extendedResourceName extract FabricManagerPartitioning
Fail fail FAIL_ON_INIT_ERROR Failed failed FailedCreatePodSandBox FailedMount FailedPrepareDynamicResources failOnInitError
failRequestsGreaterThanOne failurePolicy failureThreshold FALSE False false family FB feature featureGates field fieldPath
fieldRef fields fieldSelector file fileKeyRef filter finalizers find findAll first firstAvailable fits flags flatten floor
flowcontrol FlowSchema FlowSchemaList flowschemas fluxcd for force format FRAMEBUFFER free from fsGroup fsGroupChangePolicy full
gauge GDRCopy gdrcopy GDRCOPY_ENABLED gdrcopyEnabled gdrdrv gds GDS_ENABLED gdsEnabled geforce-rtx-3090 geforce-rtx-4090
geforce-rtx-5090 GeForceRTX generateName generation generic-garbage-collector getDate getDayOfMonth getDayOfWeek getDayOfYear
getEscapedPath getFullYear getHost getHostname getHours getMilliseconds getMinutes getMonth getPort getQuery getScheme
getSeconds gfd GFD_IMAGE gfx gi GKE gke-accelerator gke-gpu-partition-size gke-gpu-sharing-strategy
gke-max-shared-clients-per-gpu gke-nodepool globalDefault gmsaCredentialSpec gmsaCredentialSpecName google GPU gpu gpu-access
gpu-access-changes gpu-admission gpu-cluster-policy gpu-feature-discovery gpu-fraction gpu-kubelet-plugin gpu-memory
gpu-operator gpu-operator-certified gpu-operator-kubevirt gpu-shared GPU_CLUSTER GPU_TOPOLOGY_AFFINITY GPU_TOPOLOGY_NVLINK
GPU_TOPOLOGY_PCI gpuadmissionpolicies GPUAdmissionPolicy GPUAdmissionPolicyList GpuClaimParameters gpuClientsConfig GPUCluster
GPUClusterList GPUClusterPolicy gpuclusters GpuConfig gpucores gpumem gpumem-percentage gpuModuleID gpuPodDeletion GPUQuota
GPUQuotaList gpuquotas GPUs gpus graphics greatest gridd group groups grove Gt Guaranteed guard-changes guard-pods HAMi
hami-scheduler hard hardwareAddress has HashMod hashmod hasValue headGroupSpec health healthcheck Helm helm HelmRelease HGX home
honorLabels Hopper hopper host-driver-branch host-driver-version host-root hostAliases hostIPC hostManaged HostManagedIMEXDaemon
hostname hostnameOverride hostNetwork hostPath hostPaths hostPID hostPort hostProcess hostUsers hour hours hpcJobMapping http
https
huggingface ID id IfNeeded IfNotPresent Ignore ignore ignore-taint IGNORE_DRA_REQUESTS IGNORED image imagePath ImagePullBackOff
imagePullPolicy imagePullSecrets imex IMEX_ISOLATION IMEX_MODE IMEXDaemonsWithDNSNames In in includes index indexOf
InferenceService InferenceServiceList inferenceservices initContainer initContainers initContainerStatuses initialDelaySeconds
installDir instance instance-gpu-name instance-type instances int int64 integer interface interfaceName internal
internalTrafficPolicy intersects interval INVALID invalid involvedObject io iommu iommuFDEnabled IP ip IP-literal ips IPv4 IPv6
isCanonical isCIDR isFinite isGlobalUnicast isGreaterThan isInf isInteger isIP isLessThan isLinkLocalMulticast
isLinkLocalUnicast isLoopback isNaN isQuantity isSemver isSorted isStateEnabled isUnspecified isURL items JAXJob JAXJobList
jaxjobs jaxReplicaSpecs Job job-completion-index job-mapping JobList jobs JobSet jobset JobSetList jobsets jobTemplate join jpeg
jpeg-engines jpegEngines json k k0s k3s k8s k8s-cc-manager k8s-device-plugin k8s-driver-manager k8s-mig-manager
k8s-operator-libs k8s-sigs KAI kai kai-scheduler karpenter kata kataManager kataSandboxDevicePlugin Keep keep KeepEqual
keepequal keepTranslatedLabels kernel-version kernelModuleConfig kernelModuleType kernelVersion key keys kind kinds KServe
kserve kserve-container kube-api-access kube-controller-manager kube-scheduler kube-system kubectl kubeflow kubelet
kubeletPlugin kubeletRootDir kubelets kubeletVersion Kubernetes kubernetes kubernetes-sigs kubescheduler kubevirt
kubevirt-gpu-device-plugin kueue Kustomization kustomize l label LabelDrop labeldrop LabelKeep labelkeep LabelMap labelmap
labels labelSelector labelValue last last-applied-configuration lastIndexOf lastObservedTime lastState lastTimestamp
lastTransitionTime latest leaderTemplate LeaderWorkerSet leaderworkerset LeaderWorkerSetList leaderworkersets
leaderWorkerTemplate Lease LeaseList leases least leave legacyRuntime level lib licensingConfig limit limited LimitRange
LimitRangeList limitranges Limits limits limits-devices line linux list livenessProbe LLMInferenceService
LLMInferenceServiceConfig LLMInferenceServiceConfigs LLMInferenceServiceList llminferenceservices Local local localhost
localhostProfile LoggingAlphaOptions LoggingBetaOptions lowerAscii Lowercase lowercase Lt m machineTypeFile main major managed
managed-by managedFields manager map mapInsert master matchAttribute matchConditions matches matchesDeviceType matchExpression
matchExpressions matchFields matchLabels matchNames matchPolicy math max max-memory maxParallelUpgrades maxUnavailable md me
medium MEM_CLOCK Memory memory memory-pressure MEMORY_CLOCK message meta metadata metadata.name metrics MicroK8s microk8s mig
MIG-capable mig-configs mig-devices mig-enabled mig-parted mig-parted-config mig-single mig-strategy MIG_MANAGER_IMAGE
MigDeviceConfig migManager migStrategy min min-compute-capability min-cuda min-driver min-memory minor minReplicas mixed
mlPolicy mnnvl-group mode model modulus MOFED_ENABLED mofedEnabled monitoring mountPath MPIJob MPIJobList mpijobs
mpiReplicaSpecs MPS mps mps-config mps-root mps-shm MPS_ROOT mpsConfig mpsRoot MPSSupport multiprocessors multiUser mutableList
mutableMap mutating MutatingWebhookConfiguration MutatingWebhookConfigurationList mutatingwebhookconfigurations Name name named
nameHolders names Namespace namespace namespace-controller namespace-labels Namespaced NamespaceList namespaceoptins
namespacequotas namespaces namespaceSelector NaN nativeQuota network-unavailable networkData networking networkpolicies
NetworkPolicy NetworkPolicyList Never nfd nic NIMPipeline NIMService nlsEnabled No no no-devices no-nvidia-devices Node node
node-feature-discovery node-role nodeAffinity nodeClassRef NodeFeatureRule nodeInfo nodeLabels NodeList nodeName NodePool
nodepool NodePoolList nodepools nodePublishSecretRef nodes nodeSelector nodeSelectorTerms nodeStatusExporter NoExecute NONE None
none NoneOnDryRun NoSchedule not not-deleting not-ready Notebook NotebookList notebooks nothing noTimestamp NotIn nouse-gputype
nouse-gpuuuid now nriPluginEnabled NULL null numaNode Number numNodes numOfHosts nvcr Nvidia nvidia nvidia-a100-80gb nvidia-b200
nvidia-cdi nvidia-container-devices nvidia-container-toolkit nvidia-dcgm nvidia-dcgm-dra nvidia-dcgm-exporter
nvidia-dcgm-exporter-dra nvidia-device-plugin nvidia-device-plugin-configs nvidia-device-plugin-daemonset
nvidia-device-plugin-entrypoint nvidia-devices nvidia-dra-driver-gpu nvidia-experimental nvidia-fs nvidia-gb200 nvidia-gpu
nvidia-gpu-operator nvidia-h100-80gb nvidia-h100-mega-80gb nvidia-h200-141gb nvidia-l4 nvidia-legacy nvidia-plugin-configs
nvidia-rtx-pro-6000 nvidia-sandbox-device-plugin nvidia-tesla-a100 nvidia-tesla-p100 nvidia-tesla-p4 nvidia-tesla-t4
nvidia-tesla-v100 nvidia-topologyd NVIDIA_DRIVER NVIDIA_REQUIRE_CUDA NVIDIA_RUNTIME_SET_AS_DEFAULT NVIDIA_VISIBLE_DEVICES
nvidiaCTKPath nvidiaDevRoot NVIDIADriver nvidiaDriverCRD NVIDIADriverList nvidiaDriverRoot nvidiadrivers NvidiaRTX NvidiaVApps
NvidiaVCS NvidiaVPC NvidiaVWS nvml NVML_VERSION NVMLDeviceHealthCheck NVS nvswitch o object objects objectSelector
observedGeneration ofa ofa-engines ofaEngines off ofNonZeroValue oldObject on on-demand OnDelete oneshot OnFailure onPods op
Opaque opaque open openCharges opendatahub openshift openshift-nfd operands operation operations operator operatorNamespaces
operators opt opt-in optFlatMap OptIn optional optMap or org orValue os os_id ours OutOfcpu OutOfmemory OutOfnvidia OutOfpods
outputFile owner ownerReferences packed PaddleJob PaddleJobList paddlejobs paddleReplicaSpecs parallelism parameters
parametersRef parentIndex parentUUID parse parseConfigFrom part-of pascal passDeviceSpecs PassthroughSupport patch path pattern
pciBusID pcieBusID pcieRoot Pending perDeviceNodeSelection periodSeconds persistentVolumeClaim PG506-96 pgpu phase pid-pressure
pipelineParallelSize place-pods place-unconverted-pods placement plugin Pod pod pod-claim-name pod-index pod-name pod-security
pod-suspending-parent pod-template-hash podAffinity podAffinityTerm podAntiAffinity podCliqueScalingGroups PodCliqueSet
PodCliqueSetList podcliquesets podDeletion PodDisruptionBudget PodDisruptionBudgetList poddisruptionbudgets PodGroup
PodGroupList podGroupName podgroups PodInitializing podLabelAllowlistRegex PodList PodReadyToStartContainers Pods pods
PodScheduled podSecurityContext podSelector podSpec podSpecOverrides PodTemplate PodTemplateList podTemplateOverrides
podtemplates policies policy pool pools port ports power precompiled predictor preemptionPolicy PreemptLowerPriority preference
PreferIommuFD PreferNoSchedule preferredDuringSchedulingIgnoredDuringExecution prefix prefixLength present preview priority
PriorityClass priorityClasses priorityclasses PriorityClassList priorityClassName PriorityLevelConfiguration
PriorityLevelConfigurationList prioritylevelconfigurations privileged probe product production-stack productName products
profile profiles Progressing projected Prometheus prometheuses PrometheusList PrometheusRule PrometheusRuleList prometheusrules
proprietary protocol psa psp pullSecret pytorch PyTorchJob PyTorchJobList pytorchjobs pytorchReplicaSpecs quadro-rtx-6000
quadro-rtx-8000 QuadroRTX qualifiedName quantity Queue queue queue-name quota Quotas range ray RayCluster rayClusterConfig
RayClusterList rayclusters rayClusterSpec RayJob RayJobList rayjobs RayService RayServiceList rayservices rbac rdma READ_FROM
readinessGates readinessProbe readOnly readWishesOf ReadWriteOnce Ready ready reapply Reason reason recommended-accelerators
redacted regex region registry reinvocationPolicy relabelings release release-name release-namespace rename renameByDefault
REPEATABLE Replace replace replaceAll replaced replacement replica ReplicaFailure replicas ReplicaSet ReplicaSetList replicasets
replicatedJobs ReplicationController ReplicationControllerList replicationcontrollers repoConfig repository request
requestMappings requestPolicy requests requestsFromMounts required requiredDuringSchedulingIgnoredDuringExecution requirements
reserved reservedFor resizePolicy resource resource-claim-controller ResourceClaim ResourceClaimList resourceClaimName
resourceClaims resourceclaims resourceClaimStatuses ResourceClaimTemplate resourceClaimTemplate resourceclaimtemplate
ResourceClaimTemplateList resourceClaimTemplateName resourceclaimtemplates resourceClassName resourceFieldRef ResourceFlavor
resourceGroups resourceID resourceName ResourceQuota ResourceQuotaList resourcequotas resources ResourceSlice resourceSliceCount
ResourceSliceList ResourceSlices resourceslices resourcesPerNode resourceVersion resourceVersions restartPolicy
restartPolicyRules Restricted restricted result results Retain rev reverse review revision rhel rke2 Role role RoleBinding
RoleBindingList rolebindings RoleList roles RollingUpdate rollingUpdate Rollout RolloutList rollouts root rootFS round
rtx-4000-ada-generation rtx-4000-sff-ada-generation rtx-4500-ada-generation rtx-5000-ada-generation rtx-6000-ada-generation
rtx-a4000 rtx-a4500 rtx-a5000 rtx-a6000 rule rules run run-nvidia-validations runAsGroup runAsNonRoot runAsUser runAsUserName
RunContainerError Running runs runtime runtime-version RUNTIME_CONFIG_SOURCE RuntimeClass runtimeClass runtimeClasses
runtimeclasses RuntimeClassList runtimeClassName runtimePatches runtimeRef sample sandboxDevicePlugin sandboxWorkloads
Schedulable ScheduledSparkApplication ScheduledSparkApplicationList scheduledsparkapplications scheduler schedulerName
schedulers scheduling schedulingGates schedulingGroup scheme scope scopeName scopeSelector scrapeInterval scrapeTimeout SCTP
seccompProfile seconds Secret secret secretEnv secretKeyRef SecretList secretName secretRef secrets securityContext select
selector selectors selfLink SelfSubjectAccessReview SelfSubjectAccessReviewList selfsubjectaccessreviews seLinuxChangePolicy
seLinuxOptions semver separator series server Service service ServiceAccount serviceAccount serviceaccount ServiceAccountList
serviceAccountName serviceAccounts serviceaccounts serviceAccountToken ServiceList ServiceMonitor serviceMonitor
ServiceMonitorList servicemonitors serviceMonitorSelector services serving ServingRuntime set setHostnameAsFQDN
setPodSecurityLabelsForNamespace sets setting settings severity sh sha256 share shared shared-devices-allocation-policy
shared-gpu sharedCounters sharedDevicesAllocationPolicy shareID shareProcessNamespace shares sharing sharing-strategy sidecar
sideEffects Single single size sizeLimit sl-micro sleepInterval slice slices small snap sock sort sortBy sortBy_input
sortByAssociatedKeys sourceLabels sources SparkApplication SparkApplicationList sparkapplications sparkoperator spec
spec-changed split spot StartError startsWith startup-taint startupProbe state StatefulSet StatefulSetList statefulsets status
stdinOnce storage strategy STRING string stringData sub SubjectAccessReview SubjectAccessReviewList subjectaccessreviews
submitterPodTemplate subPath subPathExpr substring Succeeded success successThreshold suitableNodes sum summary
supplementalGroups supplementalGroupsPolicy Suspended svc SYNC_BOOST SYS_ADMIN sysctls system system-cluster-critical
system-node-critical system-os_release SYSTEM_GPU_AFFINITY SYSTEM_GPU_SYNC_BOOST SYSTEM_NVLINK_TOPOLOGY SYSTEM_PCI_TOPOLOGY
systemd-services t taint taints targetLabel tasks TCP tegra TEMPERATURE Template template templates tensor terminated
Terminating terminationGracePeriodSeconds terminationMessagePath terminationMessagePolicy tesla-p4 tesla-p40 tesla-t4 test text
TFJob TFJobList tfjobs tfReplicaSpecs time time-sharing time-sliced time-slicing time-slicing-config timeAdded timeoutSeconds
TimeSlicing timeSlicing timeSlicingConfig TimeSlicingSettings timestamp TitanRTX tmpl to ToBeDeletedByClusterAutoscaler token
TokenReview TokenReviewList tokenreviews tolerate tolerateGPUNodes TOLERATIONS tolerations tolerationSeconds toml toolkit
Topology topology
TopologyAffinityError topologySpreadConstraints trainer TrainingRuntime TrainingRuntimeList trainingruntimes TrainJob
trainjob-ancestor-step TrainJobList trainjobs transformList transformMap transformMapEntry trim triton TRUE True true trunc
trustedCreators Turing turing type types ubuntu UDP uid uint unavailable UnexpectedAdmissionError Unhealthy unit Unknown unknown
unknownProducts unlimitedShare UnmarshalJSON unreachable unsatisfiable Unschedulable unschedulable unused-since unwrapOpt UPDATE
updateConfigName updated updateStrategy upgrade upgradePolicy Upgrades upperAscii Uppercase uppercase URI URL url use-gputype
use-gpuuuid use_ocp_driver_toolkit used useHostMofed useNodeFeatureAPI useNvidiaDriverCRD useOpenKernelModules usePrecompiled
user userInfo username users uses usr UTC utf-8 UTIL UTILISATION UTILIZATION uuid v v1 v1alpha1 v1alpha2 v1alpha3 v1beta1
v1beta2 v2beta1 valid validating validatingadmissionpolicies ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
ValidatingAdmissionPolicyBindingList validatingadmissionpolicybindings ValidatingAdmissionPolicyList
ValidatingWebhookConfiguration ValidatingWebhookConfigurationList validatingwebhookconfigurations validator validRange
validValues Value value valueFrom Values values var vendorID Version version VERSION_ID versions vfio VfioDeviceConfig
vfioManager vfioPCI vgpu vgpu-configs vgpu-device-manager vgpu-guest-driver vgpu-host-manager vgpu-manager vgpu-mode
VGPU_MANAGER_IMAGE vgpuDeviceManager vgpuDevices vgpuManager virtualTopology virtualTopologyConfig vllm VLLMRuntime
vm-passthrough vm-vgpu void VOLATILE Volcano volcano Volta volta volume-mounts volumeDevices volumeMounts volumes
waitForCompletion waiting Warn warn Warning watched-labels webhooks weight weights windows windowsOptions wish wishes
WITH_REBOOT WITH_WORKLOAD worker workerGroupSpecs workerSpec workerTemplate Workflow workflowSpec workingDir workload
workloadRef workloads workstation WorstCase x-k8s x86_64 XGBoostJob XGBoostJobList xgboostjobs xgbReplicaSpecs yaml zone
""".split()  # noqa: SIM905 - a list would have 1,800 lines
)
"""The words of Kubernetes, of NVIDIA and of gpu-admission, which a redacted snapshot keeps.

Words with dashes and underscores are one word: `gpu-operator` is public, and `gpu-team` is not.

They are what rules read in texts of objects, and the words of CEL, of GPU configuration and of settings. A word that a new rule
reads is added here: tests compare the findings of all examples before and after the names are replaced.
"""
