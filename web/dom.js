// Elements: found, made and filled. Text only ever becomes textContent; styles only change through CSSOM (the
// page's security policy wants both).

export const $ = (id) => document.getElementById(id);

/** Sets a text, only where it differs: a screen reader would say it again. */
export function put(node, text) {
  const target = typeof node === "string" ? $(node) : node;
  if (target.textContent !== text) target.textContent = text;
}

/** An element: el("p", {class: "note", onclick: f}, "text", node, …). */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

export function icon(name) {
  return svg("svg", { "aria-hidden": "true", class: `icon ${name}` }, svg("use", { href: `#i-${name}` }));
}

export const on = (id, event, action) => $(id).addEventListener(event, action);

/** Sets a select's options, keeping what is chosen. */
export function setOptions(select, names, first) {
  const all = first == null ? names : ["", ...names];
  const same = select.options.length === all.length && all.every((name, i) => select.options[i].value === name);
  if (same) return;
  const chosen = select.value;
  select.replaceChildren(...all.map((name) => el("option", { value: name }, name || first)));
  if (all.includes(chosen)) select.value = chosen;
}

/** A button stands for a hidden file input; the same file may be chosen twice. */
export function fileButton(button, input, take) {
  on(button, "click", () => $(input).click());
  on(input, "change", () => {
    take([...$(input).files]);
    $(input).value = "";
  });
}
