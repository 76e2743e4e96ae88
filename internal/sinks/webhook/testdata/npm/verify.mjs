// Verifies deliveries with code that is not Herald's: v1 with the library from npm, v1a
// with Node's own ed25519. Standard input: one JSON
// document a line with secret, publicKey, id, timestamp, signature and body (base64).
// Standard output: for each line which of v1 and v1a verified.
import { createPublicKey, verify } from "node:crypto";
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

// standardwebhooks wants a timestamp of today; the clock stands at the delivery's.
const v1 = (d, body) => {
  const clock = Date.now;
  Date.now = () => Number(d.timestamp) * 1000;
  try {
    new Webhook(d.secret).verify(body, {
      "webhook-id": d.id, "webhook-timestamp": d.timestamp, "webhook-signature": d.signature,
    });
    return true;
  } catch {
    return false;
  } finally {
    Date.now = clock;
  }
};

const v1a = (d, body) => {
  const x = Buffer.from(d.publicKey, "base64").toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const content = Buffer.concat([Buffer.from(`${d.id}.${d.timestamp}.`), body]);
  return d.signature.split(" ").some((one) => {
    const [version, text] = one.split(",");
    return version === "v1a" && verify(null, content, key, Buffer.from(text, "base64"));
  });
};

for await (const line of createInterface({ input: process.stdin })) {
  const d = JSON.parse(line);
  const body = Buffer.from(d.body, "base64");
  console.log(JSON.stringify({ v1: v1(d, body), v1a: v1a(d, body) }));
}
