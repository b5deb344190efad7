{{- /* What the webhooks and RBAC take from settings.spec, as deploy/render.py --settings does it. */ -}}

{{- define "gpu-admission.operatorNamespaces" -}}
{{- $default := (.Files.Get "files/exempt-namespaces.yaml" | fromYaml).operatorNamespaces -}}
{{- dig "configuration" "operatorNamespaces" $default .Values.settings.spec | toJson -}}
{{- end -}}

{{- /* A list of texts in the notation of CEL, which escapes them as JSON does. */ -}}
{{- define "gpu-admission.celList" -}}
{{- $texts := list -}}
{{- range . -}}
{{- $texts = append $texts (toJson .) -}}
{{- end -}}
[{{ join ", " $texts }}]
{{- end -}}

{{- /* The namespaces that the GPU Operator may run in, in the notation of CEL. */ -}}
{{- define "gpu-admission.operatorList" -}}
{{ include "gpu-admission.celList" (include "gpu-admission.operatorNamespaces" . | fromJsonArray) }}
{{- end -}}

{{- /* {names: [...]}: the namespaces exempt from a concern. Arguments: the root, the concern, and the spec of settings. */ -}}
{{- define "gpu-admission.exemptNames" -}}
{{- $root := index . 0 -}}
{{- $concern := index . 1 -}}
{{- $spec := index . 2 -}}
{{- $default := $root.Files.Get "files/exempt-namespaces.yaml" | fromYaml -}}
{{- $names := $default.neverMatched -}}
{{- if has $concern (list "access" "conversion" "quota") -}}
{{- $names = concat $names (dig "configuration" "operatorNamespaces" $default.operatorNamespaces $spec) -}}
{{- end -}}
{{- if eq $concern "conversion" -}}
{{- $names = concat $names $default.draDriverNamespaces -}}
{{- else if has $concern (list "access" "quota") -}}
{{- range dig $concern "exemptNamespaces" (get $default $concern) $spec -}}
{{- if not (regexMatch "[*?\\[]" .) -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "names" (uniq $names) | toJson -}}
{{- end -}}

{{- /* A list of namespaces, in YAML: those exempt from all concerns. Arguments: the root, and concerns. The default ones keep
their place; the others follow in alphabetical order. */ -}}
{{- define "gpu-admission.excludedNames" -}}
{{- $root := first . -}}
{{- $concerns := rest . -}}
{{- $default := $root.Files.Get "files/exempt-namespaces.yaml" | fromYaml -}}
{{- $names := (include "gpu-admission.exemptNames" (list $root (first $concerns) $root.Values.settings.spec) | fromJson).names -}}
{{- range rest $concerns -}}
{{- $others := (include "gpu-admission.exemptNames" (list $root . $root.Values.settings.spec) | fromJson).names -}}
{{- $both := list -}}
{{- range $names -}}
{{- if has . $others -}}
{{- $both = append $both . -}}
{{- end -}}
{{- end -}}
{{- $names = $both -}}
{{- end -}}
{{- $ordered := list -}}
{{- range concat $default.neverMatched $default.operatorNamespaces $default.draDriverNamespaces -}}
{{- if has . $names -}}
{{- $ordered = append $ordered . -}}
{{- end -}}
{{- end -}}
{{- range sortAlpha $names -}}
{{- if not (has . $ordered) -}}
{{- $ordered = append $ordered . -}}
{{- end -}}
{{- end -}}
{{- toYaml $ordered -}}
{{- end -}}

{{- /* A list of namespaces in the notation of CEL: those exempt from a concern. Arguments: the root, and the concern. */ -}}
{{- define "gpu-admission.exemptList" -}}
{{ include "gpu-admission.celList" (include "gpu-admission.excludedNames" . | fromYamlArray) }}
{{- end -}}

{{- /* The resource of an added kind: its plural, as policies.kubernetes.names.plural has it. */ -}}
{{- define "gpu-admission.resource" -}}
{{- $kind := lower .kind -}}
{{- if .resource -}}
{{ .resource }}
{{- else if hasSuffix "y" $kind -}}
{{ trimSuffix "y" $kind }}ies
{{- else if hasSuffix "s" $kind -}}
{{ $kind }}es
{{- else -}}
{{ $kind }}s
{{- end -}}
{{- end -}}
