// Names, as accname has them and Chromium does them. A page decides how long a
// name takes to compute, so each has a bound: of characters, of elements, of
// depth, and the deadline of the look it belongs to.
const NAME_NODES = 400;
const NAME_DEPTH = 100;

// labelMap are the labels of the controls of one document or shadow root. Ours,
// because element.labels walks the whole document for the first control.
function labelMap(root) {
  const map = new Map();
  const all = queryAll(root, "label") ?? [];
  for (let i = 0; i < all.length && !late(); i++) {
    const control = labelControl(all[i]);
    if (control === null) continue;
    const list = map.get(control);
    if (list === undefined) map.set(control, [all[i]]);
    else list.push(all[i]);
  }
  return map;
}

// labelsOf are the labels of one control, without looking at all the others.
function labelsOf(el) {
  const out = new Set();
  const around = closest(el, "label");
  if (around !== null) out.add(around);
  const id = elementId(el);
  if (id !== "") for (const label of queryAll(getRootNode(el), `label[for="${CSS.escape(id)}"]`) ?? []) out.add(label);
  return [...out].filter((label) => labelControl(label) === el).sort((a, b) => (position(a, b) & 4 ? -1 : 1));
}

// A Namer computes names within one moment of the page. With many it is made
// for many elements, and takes in all labels at once.
class Namer {
  #many;
  #labels = new Map();

  constructor(many) {
    this.#many = many;
  }

  // name is the accessible name of el, at most NAME_BYTES, and whether it is
  // what is written in it.
  name(el, role) {
    let { text, content } = this.#full(el, role);
    return { name: cut(collapse(some(text)), NAME_BYTES), content: content === true };
  }

  labels(el) {
    if (!this.#many) return labelsOf(el);
    const root = getRootNode(el);
    let map = this.#labels.get(root);
    if (map === undefined) this.#labels.set(root, (map = labelMap(root)));
    return map.get(el) ?? [];
  }

  #full(el, role) {
    const by = getAttribute(el, "aria-labelledby");
    if (by !== null) {
      const text = this.#referenced(el, by);
      if (text !== "") return { text };
    }
    const label = getAttribute(el, "aria-label");
    if (label !== null && label.trim() !== "") return { text: label };
    const native = this.#native(el);
    if (native !== "") return { text: native };
    if (FROM_CONTENT.has(role) || (role === "generic" && actionable(el, role))) {
      const text = collapse(some(this.#content(el, { seen: new Set(), depth: 0 })));
      if (text !== "") return { text, content: true };
      const drawn = pseudo(el, "::before") + pseudo(el, "::after");
      if (drawn !== "") return { text: drawn, content: true };
    }
    const title = getAttribute(el, "title");
    if (title !== null && title.trim() !== "") return { text: title };
    return { text: getAttribute(el, "aria-placeholder") ?? (TYPABLE.has(tagOf(el)) ? getAttribute(el, "placeholder") : null) ?? "" };
  }

  #referenced(el, ids) {
    const parts = [], root = getRootNode(el);
    for (const id of some(ids).split(/\s+/).slice(0, 16)) {
      const to = id === "" || late() ? null : byId(root, id);
      if (to === null) continue;
      const label = getAttribute(to, "aria-label");
      const own = label !== null && label.trim() !== "" ? label : this.#native(to) || this.#content(to, { seen: new Set([el]), depth: 0, hidden: !drawn(to), whole: true });
      parts.push(collapse(some(own)));
    }
    return parts.join(" ").trim();
  }

  #native(el) {
    switch (tagOf(el)) {
      case "input":
        switch (inputType(el)) {
          case "submit": return this.#labelled(el) || (getAttribute(el, "value") ?? "Submit");
          case "reset": return this.#labelled(el) || (getAttribute(el, "value") ?? "Reset");
          case "button": return this.#labelled(el) || (getAttribute(el, "value") ?? "");
          case "image": return this.#labelled(el) || getAttribute(el, "alt") || getAttribute(el, "value") || getAttribute(el, "title") || "Submit";
          case "file": return this.#labelled(el) || getAttribute(el, "title") || "Choose File";
        }
        return this.#labelled(el);
      case "button": case "textarea": case "select": case "meter": case "progress": case "output": return this.#labelled(el);
      case "img": case "area": return getAttribute(el, "alt") ?? "";
      case "svg:svg": case "svg:a": return this.#childText(el, "svg:title");
      case "fieldset": return this.#childText(el, "legend");
      case "table": return this.#childText(el, "caption");
      case "figure": return this.#childText(el, "figcaption");
      case "option": case "optgroup": return getAttribute(el, "label") ?? "";
    }
    return "";
  }

  #labelled(el) {
    const parts = [];
    for (const label of this.labels(el).slice(0, 8)) parts.push(collapse(some(this.#content(label, { seen: new Set([el]), depth: 0, whole: true }))));
    return parts.join(" ").trim();
  }

  #childText(el, tag) {
    let left = 32;
    for (let c = firstChild(el); c !== null && left > 0; c = nextSibling(c), left--) {
      if (isElement(c) && tagOf(c) === tag) return collapse(some(this.#content(c, { seen: new Set(), depth: 0, hidden: tag === "svg:title", whole: true })));
    }
    return "";
  }

  // content joins the text in el. It stops when it has more than a name holds.
  #content(el, at) {
    const only = firstChild(el);
    if (only !== null && nodeType(only) === TEXT && nextSibling(only) === null && shadowRoot(el) === null) return some(data(only));
    if (at.depth > NAME_DEPTH) return "";
    let out = "";
    at.seen.add(el);
    at.depth++;
    children(el, (c) => {
      if (out.length > MUCH || at.seen.size > NAME_NODES || late()) return false;
      const type = nodeType(c);
      if (type === TEXT) out += some(data(c));
      else if (type === ELEMENT && !at.seen.has(c)) {
        at.seen.add(c);
        const style = styleOf(c), display = style.display;
        const own = !FLOWING.has(display);
        const part = display === "none" && !at.hidden ? "" : this.#embedded(c, style, at);
        if (part !== "") out += own ? " " + part + " " : part;
        else if (own) out += " ";
      }
    });
    at.depth--;
    return out;
  }

  // embedded is what an element inside gives to the name of one outside.
  #embedded(el, style, at) {
    const tag = tagOf(el);
    if (UNREAD.has(tag) || FALLBACK.has(tag) || (tag.startsWith("svg:") && !SVG_TEXT.has(tag))) return "";
    if (tag === "br") return " ";
    if (ignored(el)) return "";
    const seen = at.hidden || style.visibility === "visible";
    const role = roleOf(el);
    const by = getAttribute(el, "aria-labelledby");
    if (by !== null && !at.whole) {
      const named = this.#referenced(el, by);
      if (named !== "") return named;
    }
    if (at.whole && !at.hidden) { // a control inside a label gives its value
      if (tag === "input" && EMBEDDED.has(role)) return secret(el) ? "" : some(inputValue(el));
      if (tag === "textarea") return some(areaValue(el));
      if (tag === "select") return chosen(el);
    }
    const label = getAttribute(el, "aria-label");
    if (label !== null && label.trim() !== "") return some(label);
    if (tag === "select" || tag === "textarea" || tag === "iframe") return "";
    const native = tag === "input" && !BY_TYPE[inputType(el)] ? "" : this.#native(el);
    if (native !== "") return some(native);
    if (tag === "img" || tag === "input") return some(getAttribute(el, "title") ?? "");
    const inner = seen ? this.#content(el, at) : this.#visibleIn(el, at);
    return role !== "generic" && inner.trim() === "" ? inner + some(getAttribute(el, "title") ?? "") : inner;
  }

  // visibleIn takes what is visible again inside something that is not.
  #visibleIn(el, at) {
    if (at.depth > NAME_DEPTH) return "";
    let out = "";
    at.depth++;
    children(el, (c) => {
      if (at.seen.size > NAME_NODES || late()) return false;
      if (isElement(c) && !at.seen.has(c)) {
        at.seen.add(c);
        const style = styleOf(c);
        if (style.display !== "none") out += this.#embedded(c, style, at);
      }
    });
    at.depth--;
    return out;
  }
}

const TYPABLE = words("input textarea");
const EMBEDDED = words("textbox searchbox combobox spinbutton slider");
const UNREAD = words("script style noscript template head title meta link base datalist param source track");
// What is in these is drawn only where they themselves cannot be.
const FALLBACK = words("canvas video audio object embed");
const SVG_TEXT = words("svg:svg svg:text svg:tspan svg:a svg:g");
// Boxes that flow with the text around them.
const FLOWING = words("inline contents ruby ruby-text");

// pseudo is the text that a style sheet puts before or after.
function pseudo(el, which) {
  const m = /^"((?:[^"\\]|\\.)*)"$/.exec(styleOf(el, which).content.slice(0, MUCH));
  return m === null ? "" : m[1].replace(/\\(.)/g, "$1");
}
