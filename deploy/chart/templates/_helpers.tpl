{{- /* The labels of an object or a pod: the root, the component, and more of them, which come first. */ -}}
{{- define "gpu-admission.labels" -}}
{{- $root := index . 0 -}}
{{- $standard := dict
  "app.kubernetes.io/name" "gpu-admission"
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/component" (index . 1)
  "app.kubernetes.io/part-of" "gpu-admission"
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- merge (dict) (index . 2 | default dict) $root.Values.commonLabels $standard | toYaml -}}
{{- end -}}

{{- /* The labels and annotations of an object: the root, the component, and more of them. */ -}}
{{- define "gpu-admission.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := index . 2 -}}
labels:
  {{- include "gpu-admission.labels" (list $root (index . 1) $more.labels) | nindent 2 }}
{{- with merge (dict) ($more.annotations | default dict) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* With cert-manager, it writes the caBundle of the webhook configurations. */ -}}
{{- define "gpu-admission.injectedBundle" -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
annotations:
  cert-manager.io/inject-ca-from: gpu-admission/gpu-admission
{{- end -}}
{{- end -}}

{{- /* The image of the service and of the hooks. A registry for all charts takes the place of the one that the repository names. */ -}}
{{- define "gpu-admission.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.global.imageRegistry -}}
{{- $parts := splitList "/" $repository -}}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) -}}
{{- $parts = rest $parts -}}
{{- end -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (join "/" $parts) -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The Secrets for the registry, of a pod's spec. Charts of others write those for all charts as names. */ -}}
{{- define "gpu-admission.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets -}}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end -}}
{{- end -}}

{{- /* The network of a pod's spec. */ -}}
{{- define "gpu-admission.network" -}}
{{- if .Values.hostNetwork -}}
hostNetwork: true
{{ end -}}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) -}}
dnsPolicy: {{ . }}
{{- end -}}
{{- end -}}

{{- /* The annotations of a hook that runs and is gone: a list of its events, its weight, and more cases in which it is deleted. */ -}}
{{- define "gpu-admission.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: {{ join "," (concat (list "before-hook-creation" "hook-succeeded") (slice . 2)) }}
helm.sh/hook-output-log-policy: hook-failed
{{- end -}}

{{- /* The spec of a pod that runs one command: the root, the ServiceAccount, and the arguments. */ -}}
{{- define "gpu-admission.commandPod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 1 }}
automountServiceAccountToken: true
restartPolicy: Never
enableServiceLinks: false
{{- with include "gpu-admission.imagePullSecrets" $root }}
{{ . }}
{{- end }}
{{- with include "gpu-admission.network" $root }}
{{ . }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity:
{{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if not $root.Values.openshift }}
  runAsUser: 65532
  runAsGroup: 65532
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
containers:
- name: gpu-admission
  image: {{ include "gpu-admission.image" $root }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args:
  {{- toYaml (index . 2) | nindent 2 }}
  {{- with index . 3 }}
  volumeMounts:
  - name: {{ . }}
    mountPath: /etc/gpu-admission/{{ . }}
    readOnly: true
  {{- end }}
  resources:
    requests:
      cpu: 50m
      memory: 128Mi
    limits:
      memory: 256Mi
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
{{- with index . 3 }}
volumes:
- name: {{ . }}
  configMap:
    name: gpu-admission-{{ . }}
{{- end }}
{{- end -}}
