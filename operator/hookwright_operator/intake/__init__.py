"""The intake: the operator's HTTP for producers in the cluster and for hookwright-api.

A request passes `app` (ready? routes, faults as problem documents), `auth` (TokenReview and
SubjectAccessReview), then one of `routes`. What a body must look like is in the pure `parsing`.
"""
