"""Delivery: attempts to send accepted events to endpoints, with signatures and retries.

Three loops share the `queues` of all endpoints: the `claimer` loads deliveries from the store, and the `attempt_runner`
starts the attempts that the `scheduler` allows and stores their results. The `dispatcher` has the entry points and
starts the loops, and `http/` makes one attempt. `scheduler`, `shares`, `endpoint_queue` and `attempt` are pure. The
`shard_owner` keeps a replica to its shards of endpoints. The `status_reporter` publishes counts at a bounded rate.
"""
