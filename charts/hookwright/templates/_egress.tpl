{{- /* Called with (dict "root" $ "component" ...): "true" if the NetworkPolicy of a component restricts egress. */ -}}
{{- define "hookwright.restricted" -}}
{{- $enabled := toString .root.Values.networkPolicy.egress.enabled -}}
{{- $private := or .root.Values.settings.allowedNetworks .root.Values.settings.allowedHosts -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (or (eq .component "api") (not $private))) -}}true{{- end -}}
{{- end -}}

{{- /* Called with (dict "ports" ... "to" ...): one rule for TCP ports; of every address if there are no peers. */ -}}
{{- define "hookwright.egressRule" -}}
- ports:
    {{- range .ports }}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* The port of a URL, or the default port of its scheme. */ -}}
{{- define "hookwright.urlPort" -}}
{{- $url := urlParse . -}}
{{- $written := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $usual := dict "http" "80" "https" "443" "postgresql" "5432" "postgres" "5432" -}}
{{- default (default "6379" (index $usual $url.scheme)) $written -}}
{{- end -}}

{{- /* A network or an address as a CIDR. */ -}}
{{- define "hookwright.cidr" -}}
{{- ternary . (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) (contains "/" .) -}}
{{- end -}}

{{- /* DNS and the API server, which every component needs. Some networks
check a packet before it is forwarded to an API server, so the address of the Service kubernetes is allowed. Others check
it afterwards, so the ports of the API servers are allowed too. */ -}}
{{- define "hookwright.egressBasics" -}}
{{- $egress := .Values.networkPolicy.egress -}}
- ports:
    {{- range $egress.dnsPorts }}
    - {port: {{ int . }}, protocol: UDP}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
  {{- with $egress.dnsTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- $ports := $egress.apiServerPorts -}}
{{- $service := dict -}}
{{- if not (or $ports $egress.apiServerTo) -}}
{{- range (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes").ports -}}
{{- $ports = append $ports .port -}}
{{- end -}}
{{- if $ports -}}{{- $service = lookup "v1" "Service" "default" "kubernetes" -}}{{- end -}}
{{- end }}
{{ include "hookwright.egressRule" (dict "ports" (default (list 443 6443) $ports) "to" $egress.apiServerTo) }}
{{- range ($service.spec | default dict).clusterIPs }}
{{ include "hookwright.egressRule" (dict "ports" (list 443) "to" (list (dict "ipBlock" (dict "cidr" (include "hookwright.cidr" .))))) }}
{{- end }}
{{- end -}}

{{- /* Receivers: public addresses, without the ranges that the operator refuses, plus the addresses that the settings allow. */ -}}
{{- define "hookwright.receivers" -}}
- ports: [{protocol: TCP}]
  to:
    {{- range $block := .Files.Get "files/public-networks.yaml" | fromYamlArray }}
    {{- $except := $block.except }}
    {{- range $.Values.settings.deniedNetworks }}
    {{- /* An exception must be inside its block. */}}
    {{- if or (and (eq $block.cidr "0.0.0.0/0") (not (contains ":" .))) (and (eq $block.cidr "2000::/3") (regexMatch "^[23][0-9a-fA-F]{3}:" .)) }}
    {{- $except = append $except (include "hookwright.cidr" .) }}
    {{- end }}
    {{- end }}
    - ipBlock:
        cidr: {{ $block.cidr }}
        except:
          {{- toYaml (uniq $except) | nindent 10 }}
    {{- end }}
    {{- range .Values.settings.allowedNetworks }}
    - ipBlock: {cidr: {{ include "hookwright.cidr" . | quote }}}
    {{- end }}
{{- end -}}

{{- /* All destinations of a component of the operator. */ -}}
{{- define "hookwright.operatorEgress" -}}
{{- $v := .root.Values -}}
{{- $egress := $v.networkPolicy.egress -}}
{{ include "hookwright.egressBasics" .root }}
{{- if eq (include "hookwright.engine" .root) "postgresql" }}
{{- $ports := $egress.databasePorts }}
{{- if not $v.database.existingSecret.name }}{{ $ports = list (include "hookwright.urlPort" $v.settings.databaseUrl) }}{{ end }}
{{ include "hookwright.egressRule" (dict "ports" $ports "to" $egress.databaseTo) }}
{{- end }}
{{- with $v.settings.traces }}
{{ include "hookwright.egressRule" (dict "ports" (list (include "hookwright.urlPort" .))) }}
{{- end }}
{{- if include "hookwright.takesIn" . }}
{{- if or $v.settings.proxyUrl $v.egressProxy.existingSecret.name }}
{{- $ports := $egress.proxyPorts }}
{{- if not $v.egressProxy.existingSecret.name }}{{ $ports = list (include "hookwright.urlPort" $v.settings.proxyUrl) }}{{ end }}
{{ include "hookwright.egressRule" (dict "ports" $ports "to" $egress.proxyTo) }}
{{- range $v.settings.proxyExceptions }}
{{- if regexMatch "[/:]|^[0-9.]+$" . }}
- ports: [{protocol: TCP}]
  to: [{ipBlock: {cidr: {{ include "hookwright.cidr" . | quote }}}}]
{{- end }}
{{- end }}
{{- else }}
{{ include "hookwright.receivers" .root }}
{{- end }}
{{- end }}
{{- with $egress.operatorTo }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* All destinations of the API. */ -}}
{{- define "hookwright.apiEgress" -}}
{{- $v := .root.Values -}}
{{- $intake := dict "root" .root "component" (include "hookwright.delivering" .root) -}}
{{ include "hookwright.egressBasics" .root }}
- ports: [{port: intake, protocol: TCP}]
  to:
    - podSelector:
        matchLabels:
          {{- include "hookwright.selector" $intake | nindent 10 }}
{{- with $v.settings.operatorUrl }}
{{ include "hookwright.egressRule" (dict "ports" (list (include "hookwright.urlPort" .))) }}
{{- end }}
{{- if include "hookwright.sharedLimits" .root }}
{{- $url := ternary "redis://" $v.settings.rateLimitUrl (ne $v.rateLimits.existingSecret.name "") }}
{{ include "hookwright.egressRule" (dict "ports" (list (include "hookwright.urlPort" $url))) }}
{{- end }}
{{- with $v.networkPolicy.egress.apiTo }}
{{ toYaml . }}
{{- end }}
{{- end -}}
