{{- /* The alerts as YAML, with this installation's namespace and thresholds. */ -}}
{{- define "hookwright.alerts" -}}
{{- $text := .Files.Get "files/alerts.yaml" -}}
{{- range $name, $number := merge (dict "namespace" .Release.Namespace) .Values.metrics.prometheusRule.thresholds -}}
{{- $text = regexReplaceAll (printf "[$]%s\\b" $name) $text (include "hookwright.settingText" $number) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{- define "hookwright.alertRefusals" -}}
{{- $rule := .Values.metrics.prometheusRule -}}
{{- $text := .Files.Get "files/alerts.yaml" -}}
{{- range $value, $names := dict "disabled" $rule.disabled "overrides" (keys $rule.overrides) -}}
{{- range $names -}}
{{- if not (contains (printf "alert: %s\n" .) $text) -}}
{{- fail (printf "metrics.prometheusRule.%s names %s, but no alert has this name: docs/runbook.md lists the names" $value .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
