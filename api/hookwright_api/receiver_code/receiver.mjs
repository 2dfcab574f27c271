// A receiver of webhooks in Node 18 or newer, without a package.
// Start it with: WEBHOOK_SECRET=whsec_... node receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const TOLERANCE = 300; // seconds

/** Compare two texts in constant time. */
function same(given, expected) {
  const [left, right] = [Buffer.from(given), Buffer.from(expected)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Return the secret; throw if it is missing, because anybody can sign with an empty one. */
function known(secret) {
  if (!secret?.startsWith("whsec_")) throw new Error("the secret must begin with whsec_");
  return secret;
}

/** Check webhook-signature (Standard Webhooks); throw if the request must be refused. `body` is a Buffer. */
export function verify(secret, headers, body) {
  const key = Buffer.from(known(secret).slice("whsec_".length), "base64");
  const timestamp = headers["webhook-timestamp"];
  const hmac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${timestamp}.`).update(body);
  const expected = "v1," + hmac.digest("base64");
  // During a rotation the header has one value for each secret.
  const given = (headers["webhook-signature"] ?? "").split(" ");
  if (!given.some((value) => same(value, expected))) throw new Error("wrong signature");
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) throw new Error("the request is too old");
}

/** Check X-Service-Signature, which does not cover the time; throw if the request must be refused. */
export function verifyServiceSignature(secret, headers, body) {
  const expected = createHmac("sha256", known(secret)).update(body).digest("hex");
  if (!same(headers["x-service-signature"] ?? "", expected)) throw new Error("wrong signature");
}

// --- a server that uses one of the two ---

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const check = request.url === "/service-signature" ? verifyServiceSignature : verify;
  try {
    check(process.env.WEBHOOK_SECRET, request.headers, Buffer.concat(parts));
  } catch (error) {
    response.writeHead(401).end(error.message);
    return;
  }
  // Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
  console.log("accepted", request.headers["webhook-id"]);
  response.writeHead(204).end();
}).listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
