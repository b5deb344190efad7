{{- /* The image of the service and of the hooks. */ -}}
{{- define "gpu-admission.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
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
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
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
