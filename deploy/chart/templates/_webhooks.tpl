{{- /* Rendered by deploy/render_chart.py from deploy/base/webhooks: change that file, or the substitutions. */ -}}
{{- define "gpu-admission.webhooks" -}}
# Every field with a default is written out, so that GitOps tools see no difference. The exception is caBundle, which
# gpu-admission or cert-manager fills in and which must not be written here. matchConditions name only fields that the
# entry reads.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: gpu-admission
  {{- include "gpu-admission.metadata" (list $ "webhooks" (include "gpu-admission.injectedBundle" $ | fromYaml)) | nindent 2 }}
webhooks:
# Fails closed, in namespaces that opted in only. Called again when something changed the pod after it, as a LimitRange
# does.
# Requests are enough: the API server copies limits to them before it calls.
- name: convert-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /convert-pods
      port: 443
  failurePolicy: Fail
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: In
      values: [enabled]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "conversion") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: nvidia-devices
    expression: >-
      has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/")))))
# Extended resources of any name: a DeviceClass can stand for each. Previews what conversion would do, too.
- name: place-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /place-pods
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: NotIn
      values: [enabled]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: devices-or-wishes
    expression: >-
      (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
      k.startsWith("gpu-admission.io/") && k != "gpu-admission.io/ignore")) || (
      has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))))
# The other pods of namespaces that convert. An outage does not stop them.
- name: place-unconverted-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /place-unconverted-pods
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: In
      values: [enabled]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: devices-or-wishes
    expression: >-
      (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
      k.startsWith("gpu-admission.io/") && k != "gpu-admission.io/ignore")) || (
      has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))))
  - name: no-nvidia-devices
    expression: >-
      !(has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))))))
# Converted pods that are applied again; the selector takes in those whose label is being taken away as well.
- name: reapply.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /reapply
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  reinvocationPolicy: Never
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector:
    matchLabels:
      gpu-admission.io/managed: "true"
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [UPDATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: not-deleting
    expression: >-
      !has(object.metadata.deletionTimestamp)
  - name: spec-changed
    expression: object.spec != oldObject.spec
# Changes nothing: called before the schema of the CRD, it denies what that denies too, in better words.
- name: configuration.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /configuration
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  reinvocationPolicy: Never
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [nvidia.com]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [clusterpolicies, gpuclusters, nvidiadrivers]
    scope: Cluster
  - apiGroups: [gpu-admission.io]
    apiVersions: [v1alpha1]
    operations: [CREATE, UPDATE]
    resources: [clustergpuquotas, gpuadmissionpolicies]
    scope: Cluster
  - apiGroups: [gpu-admission.io]
    apiVersions: [v1alpha1]
    operations: [CREATE, UPDATE]
    resources: [gpuquotas]
    scope: Namespaced
---
# Every field with a default is written out, so that GitOps tools see no difference. The exception is caBundle, which
# gpu-admission or cert-manager fills in and which must not be written here. matchConditions name only fields that the
# entry reads.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: gpu-admission
  {{- include "gpu-admission.metadata" (list $ "webhooks" (include "gpu-admission.injectedBundle" $ | fromYaml)) | nindent 2 }}
webhooks:
# The pods of convert-pods, after everything that changes pods. Only the check of their conversion fails closed.
- name: enforce-converted-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /enforce-converted-pods
      port: 443
  failurePolicy: Fail
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: In
      values: [enabled]
    - key: gpu-admission.io/quota
      operator: NotIn
      values: [enforced]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "conversion") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: nvidia-devices
    expression: >-
      has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/")))))
# Where the label says so, nothing gets GPUs that cannot be charged. A DeviceClass may give its GPUs any name, so every
# extended resource may be one. Claims are charged for every user: the service knows whether the pod of a claim
# was charged for it.
- name: enforce-quota.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /enforce-quota
      port: 443
  failurePolicy: Fail
  sideEffects: NoneOnDryRun
  timeoutSeconds: 10
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/quota
      operator: In
      values: [enforced]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "quota") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1, v1beta2, v1beta1]
    operations: [CREATE]
    resources: [resourceclaims]
    scope: Namespaced
  matchConditions:
  - name: devices
    expression: >-
      request.kind.kind == "ResourceClaim" || (has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))))
# The same elsewhere: what cannot be charged passes, with a warning.
- name: check-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /check-pods
      port: 443
  failurePolicy: Ignore
  sideEffects: NoneOnDryRun
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: NotIn
      values: [enabled]
    - key: gpu-admission.io/quota
      operator: NotIn
      values: [enforced]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "access" "quota") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1, v1beta2, v1beta1]
    operations: [CREATE]
    resources: [resourceclaims]
    scope: Namespaced
  matchConditions:
  - name: devices
    expression: >-
      request.kind.kind == "ResourceClaim" || (has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))))
# The other pods of namespaces that convert, and their claims. An outage does not stop them.
- name: check-unconverted-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /check-unconverted-pods
      port: 443
  failurePolicy: Ignore
  sideEffects: NoneOnDryRun
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: gpu-admission.io/dra
      operator: In
      values: [enabled]
    - key: gpu-admission.io/quota
      operator: NotIn
      values: [enforced]
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "access" "quota") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1, v1beta2, v1beta1]
    operations: [CREATE]
    resources: [resourceclaims]
    scope: Namespaced
  matchConditions:
  - name: devices
    expression: >-
      request.kind.kind == "ResourceClaim" || (has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))))
  - name: no-nvidia-devices
    expression: >-
      request.kind.kind == "ResourceClaim" || (!(has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k,
      k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/")))))))
# envFrom alone is no reason to call: ConfigMaps of workloads are not read, so nothing could be said.
- name: guard-pods.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /guard-pods
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "access") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [pods]
    scope: Namespaced
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [UPDATE]
    resources: [pods/ephemeralcontainers]
    scope: Namespaced
  matchConditions:
  - name: gpu-access
    expression: >-
      has(object.spec) && has(object.spec.containers) && (
      (has(object.metadata.annotations) && size(object.metadata.annotations) > 5000) ||
      (has(object.spec.volumes) && size(object.spec.volumes) > 5000) ||
      [object.spec.containers,
      has(object.spec.initContainers) ? object.spec.initContainers : [],
      has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []].exists(list, size(list) > 50 || list.exists(c,
      (has(c.env) && size(c.env) > 100) || (has(c.volumeMounts) && size(c.volumeMounts) > 100))) ||
      (has(object.spec.runtimeClassName) && object.spec.runtimeClassName != "") ||
      (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
      k.startsWith("nvidia.cdi.k8s.io") || k.startsWith("cdi.k8s.io/"))) ||
      (has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath))) ||
      [object.spec.containers,
      has(object.spec.initContainers) ? object.spec.initContainers : [],
      has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []].exists(list, list.exists(c,
      (has(c.env) && c.env.exists(e, e.name == "NVIDIA_VISIBLE_DEVICES" || e.name == "CUDA_VERSION")) ||
      (has(c.image) && c.image.contains("nvidia/")) ||
      (has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.contains("nvidia-container-devices"))))))
  - name: no-devices
    expression: >-
      oldObject != null || (!(has(object.spec) && has(object.spec.containers) && (
      (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) ||
      object.spec.containers.exists(c, has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k,
      k.contains("/"))) ||
      (has(object.spec.initContainers) && object.spec.initContainers.exists(c, has(c.resources) &&
      has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/")))))))
# Pods of every kind: nodes read annotations for CDI and images when a container starts, and both can change before.
- name: guard-changes.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /guard-changes
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "access") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [UPDATE]
    resources: [pods]
    scope: Namespaced
  matchConditions:
  - name: gpu-access-changes
    expression: >-
      (has(object.metadata.annotations) && size(object.metadata.annotations) > 5000) ||
      (has(object.spec) && ((has(object.spec.containers) && size(object.spec.containers) > 1000) ||
      (has(object.spec.initContainers) && size(object.spec.initContainers) > 1000))) ||
      (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
      (k == "nvidia.cdi.k8s.io" || k.startsWith("nvidia.cdi.k8s.io/") || k.startsWith("cdi.k8s.io/")) &&
      object.metadata.?annotations[?k] != oldObject.metadata.?annotations[?k])) || (has(object.spec) && has(oldObject.spec) && (
      (has(object.spec.containers) ? object.spec.containers : []).map(c, has(c.image) ? c.image : "") !=
      (has(oldObject.spec.containers) ? oldObject.spec.containers : []).map(c, has(c.image) ? c.image : "") ||
      (has(object.spec.initContainers) ? object.spec.initContainers : []).map(c, has(c.image) ? c.image : "") !=
      (has(oldObject.spec.initContainers) ? oldObject.spec.initContainers : []).map(c, has(c.image) ? c.image : "")))
# Only the author of a workload gets warnings, and only when its spec changes. Kinds of other groups are mostly made for
# GPUs, so they are not searched here.
- name: workloads.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /workloads
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [podtemplates, replicationcontrollers]
    scope: Namespaced
  - apiGroups: [apps]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [daemonsets, deployments, replicasets, statefulsets]
    scope: Namespaced
  - apiGroups: [argoproj.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [rollouts]
    scope: Namespaced
  - apiGroups: [batch]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [cronjobs, jobs]
    scope: Namespaced
  - apiGroups: [batch.volcano.sh]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [jobs]
    scope: Namespaced
  - apiGroups: [grove.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [podcliquesets]
    scope: Namespaced
  - apiGroups: [jobset.x-k8s.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [jobsets]
    scope: Namespaced
  - apiGroups: [kubeflow.org]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [jaxjobs, mpijobs, notebooks, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
    scope: Namespaced
  - apiGroups: [leaderworkerset.x-k8s.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [leaderworkersets]
    scope: Namespaced
  - apiGroups: [ray.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [rayclusters, rayjobs, rayservices]
    scope: Namespaced
  - apiGroups: [serving.kserve.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [inferenceservices, llminferenceservices]
    scope: Namespaced
  - apiGroups: [sparkoperator.k8s.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [scheduledsparkapplications, sparkapplications]
    scope: Namespaced
  - apiGroups: [trainer.kubeflow.org]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [trainjobs]
    scope: Namespaced
  {{- range dig "workloads" "kinds" list .Values.settings.spec }}
  - apiGroups: [{{ .group | quote }}]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [{{ include "gpu-admission.resource" . | quote }}]
    scope: Namespaced
  {{- end }}
  matchConditions:
  - name: by-its-author
    expression: >-
      !has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)
  - name: not-deleting
    expression: >-
      !has(object.metadata.deletionTimestamp)
  - name: changed
    expression: >-
      oldObject == null ||
      (has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec)) ||
      (has(object.template) && (!has(oldObject.template) || object.template != oldObject.template))
  - name: gpus
    expression: >-
      !(request.kind.group in ["", "apps", "batch"]) ||
      [has(object.template) ? object.template : {},
      has(object.spec) && has(object.spec.template) ? object.spec.template : {},
      has(object.spec) && has(object.spec.jobTemplate) && has(object.spec.jobTemplate.spec) &&
      has(object.spec.jobTemplate.spec.template) ? object.spec.jobTemplate.spec.template : {}].exists(t,
      has(t.spec) && has(t.spec.containers) && (
      (has(t.metadata) && has(t.metadata.annotations) && t.metadata.annotations.exists(k,
      (k.startsWith("gpu-admission.io/") && k != "gpu-admission.io/ignore") ||
      k.startsWith("nvidia.cdi.k8s.io") || k.startsWith("cdi.k8s.io/"))) ||
      (has(t.spec.resourceClaims) && size(t.spec.resourceClaims) > 0) ||
      (has(t.spec.runtimeClassName) && t.spec.runtimeClassName != "") ||
      (has(t.spec.volumes) && t.spec.volumes.exists(v, has(v.hostPath))) ||
      [t.spec.containers, has(t.spec.initContainers) ? t.spec.initContainers : []].exists(list, list.exists(c,
      (has(c.resources) && ((has(c.resources.limits) && c.resources.limits.exists(k, k.contains("/"))) ||
      (has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))) ||
      (has(c.env) && c.env.exists(e, e.name == "NVIDIA_VISIBLE_DEVICES" || e.name == "CUDA_VERSION")) ||
      (has(c.image) && c.image.contains("nvidia/")) ||
      (has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.contains("nvidia-container-devices")))))))
# A claim that a controller makes of a template was judged with the template.
- name: claims.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /claims
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1, v1beta2, v1beta1]
    operations: [CREATE]
    resources: [resourceclaims, resourceclaimtemplates]
    scope: Namespaced
  - apiGroups: [resource.k8s.io]
    apiVersions: [v1, v1beta2, v1beta1]
    operations: [CREATE]
    resources: [deviceclasses]
    scope: Cluster
  - apiGroups: [resource.nvidia.com]
    apiVersions: ["*"]
    operations: [CREATE]
    resources: [computedomains]
    scope: Namespaced
  - apiGroups: [resource.k8s.io]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [devicetaintrules]
    scope: Cluster
  matchConditions:
  - name: by-people
    expression: >-
      !(request.userInfo.username in ["system:serviceaccount:kube-system:resource-claim-controller",
      "system:kube-scheduler", "system:serviceaccount:gpu-admission:gpu-admission"])
# ConfigMaps of the operator's namespaces, or with our label anywhere. Of our own settings and quotas, the invalid are
# refused. ResourceQuotas and LimitRanges of Kubernetes cause warnings, and their status is not matched.
- name: configuration.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /configuration
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, gpu-admission]
  objectSelector: {}
  rules:
  - apiGroups: [nvidia.com]
    apiVersions: ["*"]
    operations: [CREATE, UPDATE]
    resources: [clusterpolicies, gpuclusters, nvidiadrivers]
    scope: Cluster
  - apiGroups: [nvidia.com]
    apiVersions: ["*"]
    operations: [DELETE]
    resources: [clusterpolicies]
    scope: Cluster
  - apiGroups: [gpu-admission.io]
    apiVersions: [v1alpha1]
    operations: [CREATE, UPDATE]
    resources: [clustergpuquotas, gpuadmissionpolicies]
    scope: Cluster
  - apiGroups: [gpu-admission.io]
    apiVersions: [v1alpha1]
    operations: [CREATE, UPDATE]
    resources: [gpuquotas]
    scope: Namespaced
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE, DELETE]
    resources: [configmaps]
    scope: Namespaced
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [limitranges, resourcequotas]
    scope: Namespaced
  matchConditions:
  - name: ours
    expression: >-
      request.kind.kind != "ConfigMap" || [object, oldObject].exists(o, o != null && (
      o.metadata.namespace in {{ include "gpu-admission.operatorList" . }} ||
      (has(o.metadata.labels) && "gpu-admission.io/config" in o.metadata.labels)))
  - name: changed
    expression: >-
      request.kind.kind != "ConfigMap" || object == null || oldObject == null || object.?data != oldObject.?data ||
      object.?binaryData != oldObject.?binaryData || object.metadata.?labels != oldObject.metadata.?labels
  - name: limits-devices
    expression: >-
      !(request.kind.kind in ["LimitRange", "ResourceQuota"]) || (object.?spec != oldObject.?spec &&
      (object.?spec.?hard.orValue({}).exists(k, k.contains("/")) ||
      object.?spec.?limits.orValue([]).exists(l, ["max", "min", "default", "defaultRequest"].exists(field,
      field in l && l[field].exists(k, k.contains("/"))))))
# Labels can be written through nodes/status too; heartbeats change none of these.
- name: nodes.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /nodes
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector: {}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [nodes]
    scope: Cluster
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [UPDATE]
    resources: [nodes/status]
    scope: Cluster
  matchConditions:
  - name: watched-labels
    expression: >-
      ["nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.workload.config",
      "nvidia.com/gpu-operator.driver.owner", "nvidia.com/mig.config.state", "nvidia.com/vgpu.config.state"].exists(k,
      object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])
# Namespaces that choose conversion, or another strategy. Says what becomes of their workloads; warnings only.
- name: opt-in.gpu-admission.io
  admissionReviewVersions: [v1]
  clientConfig:
    {{- with .Values.certificates.caBundle }}
    caBundle: {{ b64enc . }}
    {{- end }}
    service:
      name: gpu-admission
      namespace: gpu-admission
      path: /opt-in
      port: 443
  failurePolicy: Ignore
  sideEffects: None
  timeoutSeconds: 5
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      {{- include "gpu-admission.excludedNames" (list . "conversion") | nindent 6 }}
  objectSelector: {}
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [namespaces]
    scope: Cluster
  matchConditions:
  - name: conversion-changes
    expression: >-
      ["gpu-admission.io/dra", "gpu-admission.io/dra-strategy"].exists(k,
      object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])
{{- end -}}
