// The story of generated clients; tests/integration/api/test_generated_clients.py says what it does.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { argv: string[] };
const [url, email, password, receiver] = process.argv.slice(2) as [string, string, string, string];

function right<T>(what: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

async function eventually<T>(what: string, ask: () => Promise<T>, holds: (answer: T) => boolean): Promise<T> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (Date.now() > deadline) throw new Error(`${what}: ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const open = createClient<paths>({ baseUrl: url });
const { token } = right("login", await open.POST("/v1/auth/login", { body: { email, password } }));
const session = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
const made = await session.POST("/v1/projects/{project}/keys", {
  params: { path: { project: "billing" } },
  body: { name: "typescript" },
});
const key = createClient<paths>({ baseUrl: url, headers: { "X-Service-Key": right("key", made).key } });

const project = "billing";
const webhook = right(
  "webhook",
  await session.POST("/v1/webhooks", { params: { query: { project } }, body: { url: receiver, events: ["delivered"] } }),
);
const path = { id: webhook.id };
const changed = await session.PATCH("/v1/webhooks/{id}", {
  params: { path, query: { project } },
  body: { description: "generated" },
  headers: { "Content-Type": "application/merge-patch+json" },
});
right("change", changed);

const sent = right("event", await key.POST("/v1/events", { body: { type: "delivered", messageId: "m-typescript" } }));
console.log(`accepted ${sent.accepted}`);
const search = async () => {
  const page = await key.GET("/v1/deliveries", { params: { query: { message_id: "m-typescript" } } });
  return right("search", page).data[0]!;
};
const found = await eventually("delivered", search, (one) => one.status === "delivered");
const shown = await key.GET("/v1/deliveries/{id}", { params: { path: { id: found.id } } });
console.log(`status ${right("delivery", shown).attempts[0]!.statusCode}`);
right("retry", await key.POST("/v1/deliveries/{id}/retry", { params: { path: { id: found.id } } }));
await eventually("retried", search, (one) => one.attempts.length === 2);

const rotated = await session.POST("/v1/webhooks/{id}/rotate-secret", { params: { path, query: { project } } });
console.log(`rotated ${right("rotation", rotated).secret !== webhook.secret}`);
const begun = await session.POST("/v1/webhooks/{id}/replays", {
  params: { path },
  body: { since: "2020-01-01T00:00:00Z", state: "delivered" },
});
const replay = right("replay", begun).id!;
const ended = await eventually(
  "replayed",
  async () => right("replay", await session.GET("/v1/webhooks/{id}/replays/{replay}", { params: { path: { ...path, replay } } })),
  (one) => one.status === "completed",
);
console.log(`replayed ${ended.done}`);
await eventually("sent", search, (one) => one.attempts.length === 3);
const deleted = await session.DELETE("/v1/webhooks/{id}", { params: { path, query: { project } } });
if (deleted.response.status !== 204) throw new Error(JSON.stringify(deleted.error));
console.log("deleted");
