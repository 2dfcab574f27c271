{{- /* The alerts as YAML, with this installation's namespace, matchers and thresholds. */ -}}
{{- define "hookwright.alerts" -}}
{{- $text := .Files.Get "files/alerts.yaml" -}}
{{- range $label, $value := .Values.metrics.prometheusRule.matchers -}}
{{- $text = replace "namespace=\"$namespace\"" (printf "namespace=\"$namespace\", %s=%q" $label $value) $text -}}
{{- $text = replace "by (namespace" (printf "by (namespace, %s" $label) $text -}}
{{- end -}}
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
{{- println (printf "metrics.prometheusRule.%s names %s, but no alert has this name: docs/runbook.md lists the names" $value .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
