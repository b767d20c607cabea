// What an element holds, and the state it is in.
const TYPED = words("text search email tel url password number");
const DATES = words("date time month week datetime-local");

// Fields that held a secret once keep it when a page shows them in clear.
const secrets = new WeakSet();

function secret(el) {
  if (tagOf(el) !== "input") return false;
  if (secrets.has(el)) return true;
  if (inputType(el) !== "password" && !/password|one-time-code|cc-csc/i.test(getAttribute(el, "autocomplete") ?? "")) return false;
  secrets.add(el);
  return true;
}

// kindOf says what takes an effect.
function kindOf(el) {
  switch (tagOf(el)) {
    case "select": return "select";
    case "textarea": return "text";
    case "input": {
      const type = inputType(el);
      if (secret(el)) return "password";
      if (TYPED.has(type)) return "text";
      if (DATES.has(type)) return "date";
      return type === "submit" || type === "reset" || type === "image" ? "button" : type;
    }
  }
  if (el instanceof HTMLElement && isContentEditable(el)) return "text";
  return roleOf(el);
}

// valueOf is what an element holds, as text; undefined where it holds nothing
// that is not its name. A secret is only ever "filled" or "empty" (A60).
function valueOf(el, role) {
  switch (tagOf(el)) {
    case "textarea": return areaValue(el);
    case "select": return chosen(el);
    case "meter": return String(meterValue(el));
    case "progress": return hasAttribute(el, "value") ? String(progressValue(el)) : undefined;
    case "input": {
      const type = inputType(el);
      if (secret(el)) return inputValue(el) === "" ? "empty" : "filled";
      if (TYPED.has(type) || DATES.has(type) || type === "range" || type === "color") return inputValue(el);
      if (type !== "file") return undefined;
      const files = inputFiles(el);
      return files === null || files.length === 0 ? "" : Array.from(files, (f) => f.name).slice(0, 8).join(", ");
    }
  }
  if (editingHost(el)) return innerText(el);
  if (role === "textbox" || role === "searchbox") return some(textContent(el));
  return getAttribute(el, "aria-valuetext") ?? getAttribute(el, "aria-valuenow") ?? undefined;
}

function chosen(el) {
  const out = [], all = selectOptions(el);
  for (let i = 0; i < all.length && out.length < 16; i++) out.push(collapse(some(optionLabel(all[i]))));
  return out.join(", ");
}

const CHECKED = words("checkbox radio switch menuitemcheckbox menuitemradio option treeitem");

// statesOf lists the states of an element that are not what is usual.
function statesOf(el, role, active) {
  const out = [], tag = tagOf(el);
  const aria = (name) => getAttribute(el, "aria-" + name);
  const box = tag === "label" ? labelControl(el) : el; // a label that stands for its control
  if (box !== null && tagOf(box) === "input" && (inputType(box) === "checkbox" || inputType(box) === "radio")) {
    out.push(inputIndeterminate(box) ? "mixed" : inputChecked(box) ? "checked" : "unchecked");
  } else if (CHECKED.has(role)) {
    const v = aria("checked");
    if (v === "true" || v === "false" || v === "mixed") out.push(v === "mixed" ? v : v === "true" ? "checked" : "unchecked");
  }
  if (tag === "option" ? optionSelected(el) : aria("selected") === "true") out.push("selected");
  const pressed = aria("pressed");
  if (pressed === "true" || pressed === "mixed") out.push("pressed");
  const up = tag === "summary" ? parentNode(el) : null;
  const expanded = up !== null && isElement(up) && tagOf(up) === "details" ? String(detailsOpen(up)) : aria("expanded");
  if (expanded === "true" || expanded === "false") out.push(expanded === "true" ? "expanded" : "collapsed");
  if (aria("current") !== null && aria("current") !== "false") out.push("current");
  if (aria("invalid") !== null && aria("invalid") !== "false") out.push("invalid");
  if (aria("busy") === "true") out.push("busy");
  if (WIDGETS.has(role) || role === "label") {
    if (disabled(box ?? el)) out.push("disabled");
    if (readOnly(el)) out.push("readonly");
    if (tag === "input" || tag === "select" || tag === "textarea" ? matches(el, ":required") : aria("required") === "true") out.push("required");
  }
  if (el === active) out.push("focused");
  return out;
}

function readOnly(el) {
  const tag = tagOf(el);
  if ((tag === "input" && TYPED.has(inputType(el))) || tag === "textarea") return hasAttribute(el, "readonly");
  return getAttribute(el, "aria-readonly") === "true";
}

// focused is the element that has the focus, inside of shadow roots too.
function focused() {
  let at = activeIn(document);
  for (let i = 0; at !== null && i < 64; i++) {
    const root = shadowRoot(at);
    const inner = root === null ? null : activeIn(root);
    if (inner === null) break;
    at = inner;
  }
  return at;
}
