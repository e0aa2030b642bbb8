// Talk to the server: requests, errors, and streams of events.

import { parse } from "./text.js";

const MAX_TRIES = 12; // to find the server process that has a run
export const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content || "";

// Without the cache, which also makes requests for the same URL wait for each other.
// No endpoint redirects: a redirect leads to the login of an application.
export const request = (path, options = {}) => fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "manual", ...options });

export function send(path, body, accept = "application/json", options = {}) {
  const headers = { "Content-Type": "application/json", Accept: accept };
  if (meta("csrf-header") && meta("csrf-token")) headers[meta("csrf-header")] = meta("csrf-token");
  return request(path, { method: "POST", headers, body: JSON.stringify(body), ...options });
}

export async function errorIn(response) {
  if (response.type === "opaqueredirect") return { code: "logged_out", message: "You are not logged in." };
  try {
    return (await response.clone().json()).error || {};
  } catch { return {}; /* not from syncagent: a proxy, perhaps */ }
}
export const errorOf = async (response) => (await errorIn(response)).message || `The server responded with ${response.status}.`;

// The codes of errors that a login may remedy.
const LOGIN = ["forbidden", "logged_out"];

// Return the address of the login for an error, or an empty string. It leads back here.
export function loginFor(error) {
  if (!LOGIN.includes(error.code)) return "";
  if (!meta("login-url")) return error.code === "logged_out" ? location.href : ""; // a new page is redirected there
  const address = new URL(meta("login-url"), location);
  address.searchParams.set("next", location.pathname + location.search + location.hash);
  return address.href;
}

// Without a store a run lives in one process of the server. A process that does not have it
// closes the connection, so that the next try may reach another one.
export async function untilFound(ask) {
  for (let tries = 1; ; tries++) {
    const response = await ask();
    if (response.status !== 404 || tries >= MAX_TRIES || (await errorIn(response)).code !== "not_here") return response;
    await pause(10 * tries);
  }
}

export const pathOf = (id, action = "") => "runs/" + encodeURIComponent(id) + action;

// Yield [name, data, id] of each event of a stream.
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n\n");
      rest = lines.pop();
      for (const each of lines) {
        const fields = {};
        for (const line of each.split("\n")) {
          const at = line.indexOf(": ");
          if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
        }
        if (fields.event) yield [fields.event, parse(fields.event, fields.data), fields.id ? Number(fields.id) : 0];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
