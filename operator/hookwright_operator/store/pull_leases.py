"""Leases of messages to consumers: taken, settled, ended."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import Connection

from hookwright_operator.store.group_commit import Operation
from hookwright_operator.store.lost_claims import unless_lost
from hookwright_operator.store.message_leases import LeaseId, Nack, SettledLease, Take, Taken
from hookwright_operator.store.records import Settlement, State
from hookwright_operator.store.sql import pull
from hookwright_operator.store.statistics import Statistics
from hookwright_operator.store.transactions import Transactions
from hookwright_runtime.errors import StoreError


class PullLeases:
    """The leases in a store. Every call may raise StoreUnavailable, as the store's own calls do."""

    def __init__(self, transactions: Transactions, statistics: Statistics) -> None:
        self._transactions, self._statistics = transactions, statistics
        self._take = Operation("take", self._take_all)
        self._returns: set[asyncio.Task[None]] = set()

    async def take(self, request: Take, *, tenant: str) -> Taken:
        """Lease messages that are due. If the caller is cancelled meanwhile, their leases end without an attempt.

        Args:
            request: the request.
            tenant: the namespace of the endpoint.
        """

        def lost(take: Taken, *, outcome_unknown: bool) -> None:
            del outcome_unknown
            if take.messages:
                self.give_back(take, tenant=tenant)

        submit = self._transactions.group_commit.submit
        return await unless_lost(partial(submit, self._take, request, weight=request.limit, tenant=tenant), lost)

    def give_back(self, take: Taken, *, tenant: str) -> asyncio.Task[None]:
        """Begin to end the leases of messages that no consumer gets; if this fails, they end at their time."""
        task = asyncio.get_running_loop().create_task(self._return(take, tenant))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)
        return task

    async def settle(
        self,
        endpoint_uid: str,
        leases: Sequence[LeaseId],
        refusal: Nack | None,
        next_attempt: pull.NextAttempt,
        *,
        tenant: str,
    ) -> tuple[list[Settlement], dict[LeaseId, SettledLease]]:
        """Settle the messages that leases still own; see `pull.settle_messages`."""
        step = partial(
            pull.settle_messages,
            endpoint_uid=endpoint_uid,
            leases=leases,
            refusal=refusal,
            next_attempt=next_attempt,
            slot=self._transactions.slot,
        )
        settlements, results = await self._transactions.write_now(
            "settle_messages", step, weight=2 * len(leases), tenant=tenant
        )
        self._note(settlements)
        return settlements, results

    async def end(self, next_attempt: pull.NextAttempt) -> pull.EndedLeases:
        """Settle the messages of leases that have ended; see `pull.end_leases`."""
        first = await self._transactions.read("next_lease_end", lambda connection: connection.scalar(pull.NEXT_END))
        if first is None or first > self._transactions.clock():
            return pull.EndedLeases(0, [])
        step = partial(pull.end_leases, next_attempt=next_attempt, slot=self._transactions.slot)
        leases: pull.EndedLeases = await self._transactions.write_now("end_leases", step, weight=512, tenant="(leases)")
        self._note(leases.settlements)
        return leases

    def close(self) -> None:
        """Stop giving messages back; their leases end by themselves."""
        for task in self._returns:
            task.cancel()

    def _take_all(self, connection: Connection, calls: Sequence[Take]) -> list[Taken]:
        return [pull.take(connection, call, now=self._transactions.clock()) for call in calls]

    def _note(self, settlements: Sequence[Settlement]) -> None:
        self._statistics.count(settlements, frozenset())
        self._transactions.notifications.send(
            {settlement.endpoint_uid for settlement in settlements if settlement.state is State.PENDING}
        )

    async def _return(self, take: Taken, tenant: str) -> None:
        with suppress(StoreError):
            give_back = partial(pull.give_back, take=take)
            await self._transactions.write_now("return", give_back, weight=len(take.messages), tenant=tenant)
