// What an element was when it was shown, and whether it still is that. Two
// things can go wrong under a ref: a page writes a new label on the old node,
// or keeps the label and lets the node stand for another row of a list. So the
// print of an element is its role and name, and its tag, what it does, and the
// row it stands in. What it holds and its state are not part of it: these
// change by use.
const PRINT = ["role", "name", "tag", "action", "row"];

function printOf(el, role, name, does) {
  const row = rowOf(el);
  return [role, name, tagOf(el), does, row === null ? "" : rowName(row, el)];
}

// doesWhat is what pressing the element leads to, as far as it can be read.
function doesWhat(el) {
  switch (tagOf(el)) {
    case "a": case "area": return getAttribute(el, "href") ?? ""; // as written: to resolve it takes long
    case "svg:a": return getAttribute(el, "href") ?? getAttribute(el, "xlink:href") ?? "";
    case "button": {
      const type = buttonType(el), form = buttonForm(el);
      return type === "submit" && form !== null ? sends("submit", el, form, buttonFormAction) : type;
    }
    case "input": {
      const type = inputType(el), form = inputForm(el);
      const does = secret(el) ? "password" : type; // shown in clear or not, it is the same field
      if ((type === "submit" || type === "image") && form !== null) return sends(does, el, form, inputFormAction);
      return does + " " + (getAttribute(el, "name") ?? "");
    }
    case "label": return "label";
  }
  return getAttribute(el, "onclick") ?? "";
}

// sends is where a button sends its form.
const sends = (what, el, form, action) => what + " " + formMethod(form) + " " + (hasAttribute(el, "formaction") ? action(el) : formAction(form));

const ROWS = "li,tr,article,[role=listitem],[role=row],[role=treeitem],[role=article]";
const ROW_BYTES = 128;
const NOT_A_NAME = words("button select textarea script style template svg");

// rowName is what a row is called by: the first text in it that is not the
// element's own and not on a button.
function rowName(row, el) {
  let at = firstChild(row);
  for (let left = 48; at !== null && left > 0; left--) {
    const type = nodeType(at);
    if (type === TEXT) {
      const text = collapse(some(data(at)));
      if (text !== "") return cut(text, ROW_BYTES);
    } else if (type === ELEMENT && at !== el && !NOT_A_NAME.has(localName(at))) {
      const below = firstChild(at);
      if (below !== null) {
        at = below;
        continue;
      }
    }
    let next = nextSibling(at);
    while (next === null && (at = parentNode(at)) !== null && at !== row) next = nextSibling(at);
    at = next;
  }
  return "";
}

// What was shown last: under which generation, and per ref the element and its
// print. Weakly, so that a page's memory is not held.
let generation = 0;
let held = [];
let shown = [];

// A document that is left may come back from the browser's cache. Its refs
// do not (A54).
addEventListener("pagehide", () => {
  generation = 0;
  held = shown = [];
}, true);

// find gives the element of a ref, or why not.
function find(of, ref) {
  if (of !== generation) return { refused: generation === 0 ? "new_document" : "older_snapshot" };
  const entry = held[ref - 1];
  if (entry === undefined) return { refused: "unknown" };
  const el = entry.ref.deref();
  if (el === undefined || !isConnected(el)) return { refused: "detached" };
  return { el, print: entry.print };
}

// observe gives the element of a ref if it is still what was shown, is drawn
// and can be used (S3.26), or what was measured instead.
function observe(of, ref) {
  const found = find(of, ref);
  if (found.refused) return found;
  const { el, print } = found;
  if (!drawn(el) || closest(el, "[inert],[aria-hidden=true]") !== null) return { refused: "hidden" };
  const role = roleOf(el);
  const now = printOf(el, role, new Namer(false).name(el, role).name, doesWhat(el));
  const changed = PRINT.filter((_, i) => now[i] !== print[i]);
  if (changed.length > 0) return { refused: changed.includes("role") || changed.includes("name") ? "relabelled" : "recycled", changed };
  if (disabled(tagOf(el) === "label" ? (labelControl(el) ?? el) : el)) return { refused: "disabled" };
  return { el };
}

// rowOf is the row that an element stands in.
const rowOf = (el) => {
  const up = parentNode(el);
  return up !== null && isElement(up) ? closest(up, ROWS) : null;
};
