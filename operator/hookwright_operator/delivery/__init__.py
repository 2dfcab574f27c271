"""Delivery: attempts to send accepted events to endpoints, with signatures and retries.

`scheduler`, `endpoint_queue`, `owned_shards`, `retry_schedule` and `attempt` are pure. The `dispatcher` claims
deliveries into endpoint queues and starts attempts, `http/` makes one attempt, and the `result_writer` stores what came
of it. The `shard_owner` keeps a replica to its shards of endpoints; the `status_reporter` publishes counts, rarely.
"""
