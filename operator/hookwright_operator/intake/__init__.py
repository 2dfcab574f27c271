"""The intake: the operator's HTTP for producers in the cluster and for hookwright-api.

A request passes `app` (readiness, routing, errors as problem documents), `auth` (TokenReview and SubjectAccessReview),
then one of `routes`. The pure module `parsing` defines the form of a body.
"""
