"""What the Helm chart takes from elsewhere in this repository, so that nothing of it is kept twice by hand.

CRDs come from ``crds/``, RBAC rules from the manifests that development runs with, settings from the two settings
classes; the chart's README comes from the comments in its values.
"""
