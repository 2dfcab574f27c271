{{- define "hookwright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "hookwright.fullname" -}}
{{- $name := include "hookwright.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The installation's own namespace. */ -}}
{{- define "hookwright.namespace" -}}
{{- default .Release.Namespace .Values.settings.namespace -}}
{{- end -}}

{{- /* The namespace of users, session keys and ended sessions. */ -}}
{{- define "hookwright.usersNamespace" -}}
{{- default (printf "%s-users" (include "hookwright.namespace" .)) .Values.settings.usersNamespace -}}
{{- end -}}

{{- /* Called with (dict "root" $ "component" "operator", "delivery" or "api"). */ -}}
{{- define "hookwright.component" -}}
{{- printf "%s-%s" (include "hookwright.fullname" .root) .component -}}
{{- end -}}

{{- define "hookwright.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- default (include "hookwright.component" .) $account.name -}}
{{- else -}}
{{- $account.name -}}
{{- end -}}
{{- end -}}

{{- define "hookwright.selector" -}}
app.kubernetes.io/name: {{ include "hookwright.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Labels of an object; component may be left out. */ -}}
{{- define "hookwright.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "hookwright.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hookwright
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* [registry/]repository, then "@" and a digest, or ":" and a tag. */ -}}
{{- define "hookwright.image" -}}
{{- $image := .Values.image -}}
{{- $version := $image.digest | default $image.tag | default .Chart.AppVersion -}}
{{- with .Values.global.imageRegistry | default $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository }}{{ ternary "@" ":" (hasPrefix "sha256:" $version) }}{{ $version -}}
{{- end -}}
