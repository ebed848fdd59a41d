{{- define "flipop.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "flipop.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "flipop.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "flipop.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "flipop.selectorLabels" -}}
{{- if .Values.selectorLabels }}
{{- toYaml .Values.selectorLabels }}
{{- else -}}
app.kubernetes.io/name: {{ include "flipop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end }}

{{/* All labels of an object, as YAML; what is more special wins. Takes (dict "context" $ "more" LABELS). */}}
{{- define "flipop.labels" -}}
{{- $ := .context }}
{{- $own := dict
      "app.kubernetes.io/name" (include "flipop.name" $)
      "app.kubernetes.io/instance" $.Release.Name
      "app.kubernetes.io/version" ($.Chart.AppVersion | toString)
      "app.kubernetes.io/managed-by" $.Release.Service
      "helm.sh/chart" (printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_") }}
{{- $selector := include "flipop.selectorLabels" $ | fromYaml }}
{{- merge (dict) $selector (.more | default dict) ($.Values.commonLabels | default dict) $own | toYaml }}
{{- end }}

{{/* Labels of the pods. What changes with each release is left out, or pods would restart for it. */}}
{{- define "flipop.podLabels" -}}
{{- $selector := include "flipop.selectorLabels" . | fromYaml }}
{{- $own := dict "app.kubernetes.io/name" (include "flipop.name" .) "app.kubernetes.io/instance" .Release.Name }}
{{- merge (dict) $selector (.Values.podLabels | default dict) (.Values.commonLabels | default dict) $own | toYaml }}
{{- end }}

{{- define "flipop.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "flipop.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "flipop.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "flipop.leaseNamespace" -}}
{{- .Values.leaderElection.namespace | default .Release.Namespace }}
{{- end }}

{{/* The Secret with credentials, empty for none. */}}
{{- define "flipop.credentialsSecret" -}}
{{- if .Values.credentials.existingSecret }}
{{- .Values.credentials.existingSecret }}
{{- else if .Values.credentials.values }}
{{- printf "%s-credentials" (include "flipop.fullname" .) }}
{{- end }}
{{- end }}

{{- define "flipop.env" -}}
{{- with .Values.extraEnv }}
env:
{{ toYaml . }}
{{- end }}
{{- $secret := include "flipop.credentialsSecret" . }}
{{- if or $secret .Values.extraEnvFrom }}
envFrom:
{{- if $secret }}
- secretRef:
    name: {{ $secret }}
{{- end }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the containers of the controller and of the test have in common. */}}
{{- define "flipop.container" -}}
image: {{ include "flipop.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with include "flipop.env" . | trim }}
{{ . }}
{{- end }}
securityContext:
  {{- toYaml (.Values.containerSecurityContext | default dict) | nindent 2 }}
volumeMounts:
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What their pods have in common. */}}
{{- define "flipop.pod" -}}
serviceAccountName: {{ include "flipop.serviceAccountName" . }}
# A Service of this name would set variables that begin with FLIPOP_.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
securityContext:
  {{- toYaml (.Values.podSecurityContext | default dict) | nindent 2 }}
volumes:
# The only place to write to.
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Refuse an object of the Prometheus Operator on a cluster without it; `helm template` has no cluster to ask. */}}
{{- define "flipop.needsMonitoring" -}}
{{- $versions := .context.Capabilities.APIVersions }}
{{- if and ($versions.Has "v1/Pod") (not ($versions.Has "monitoring.coreos.com/v1")) }}
{{- fail (printf "%s: this cluster does not serve monitoring.coreos.com/v1: install the Prometheus Operator first, or set it to false" .value) }}
{{- end }}
{{- end }}
