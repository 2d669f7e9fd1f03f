// Who is there: signing in and out, and what the role allows.
import { api, onUnauthorized } from "./api.js";
import { $, on, put } from "./dom.js";
import { token } from "./keep.js";
import { openDialog } from "./notice.js";
import { state } from "./store.js";

const RANK = { inspect: 0, learn: 1, admin: 2 };

/** Why the user may not do something that needs a role; "" when they may. */
export function whyNot(role) {
  const { status } = state;
  if (!status) return "Waiting for the service.";
  if (RANK[status.role] < RANK[role]) return `Your role is “${status.role}”; this needs “${role}”.`;
  if (role === "learn" && status.learning.state === "stopped") return "Learning is stopped.";
  return "";
}

function askToken() {
  if ($("sign-in").open) return;
  put("sign-in-error", token.get() ? "This token is not accepted." : "");
  token.set("");
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  openDialog($("sign-in"));
}

async function signIn(event, signedIn) {
  event.preventDefault();
  token.set($("token").value.trim());
  try {
    await api("v1/status");
    $("token").value = "";
    $("sign-in").close();
    signedIn();
  } catch (error) {
    token.set("");
    put("sign-in-error", error.status === 401 ? "This token is not accepted." : error.message);
    $("token").select();
  }
}

export function connectSession(signedIn) {
  onUnauthorized(askToken);
  on("sign-in-form", "submit", (event) => signIn(event, signedIn));
  on("sign-in", "cancel", (event) => event.preventDefault());  // there is nothing to see behind it
  on("sign-out", "click", () => { token.set(""); location.reload(); });
}
