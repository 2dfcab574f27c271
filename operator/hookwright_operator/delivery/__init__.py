"""Delivery: attempts to send accepted events to endpoints, with signatures and retries.

`scheduler`, `endpoint_queue`, `owned_shards`, `retry_schedule` and `attempt` are pure. The `dispatcher` claims
deliveries into endpoint queues and starts attempts, `http/` makes one attempt, and the `result_writer` stores its
result. The `shard_owner` keeps a replica to its shards of endpoints. The `status_reporter` publishes counts at a
bounded rate.
"""
