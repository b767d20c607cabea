// The walk: from the top to the bottom of the page as it is drawn, without
// recursion, into a flat list of nodes.
const WALK_MS = 2000;
const MOST_NODES = 100_000;
const MOST_CHARS = 8 << 20;
const MOST_PIECES = 16; // of one text

// Roles that may have the text that they begin with on their own line; those
// that are no line of their own when all they have is one node, as a paragraph
// without text never is; those that remain when there is nothing in them; and
// those into which the walk does not go.
const TEXTED = words("paragraph listitem cell gridcell blockquote caption status alert note log timer");
const WRAPPERS = words("listitem cell gridcell");
const STAYING = words("cell gridcell columnheader rowheader iframe separator img progressbar meter");
const LEAVES = words("textbox searchbox combobox spinbutton slider date time color img separator progressbar meter iframe");

// What makes a drawing without a name worth walking, and what in it is not drawn.
const IN_DRAWING = "a,text,foreignObject,[role],[tabindex]";
const UNDRAWN = words("svg:title svg:desc svg:metadata svg:defs svg:style svg:script svg:symbol svg:clipPath svg:mask svg:marker svg:pattern svg:filter");

class Walk {
  nodes = [];
  held = [];
  chars = 0;
  visited = 0;
  unread = 0;
  #namer = new Namer(true);
  #active = focused();
  #stack = [];
  #text = "";
  #frame; // where the text stands

  constructor() {
    const top = documentElement(document);
    if (top !== null && styleOf(top).display !== "none") { // styles are computed now, which no deadline can stop
      start(WALK_MS);
      this.#open(top, { depth: 0, node: -1, told: true }, true);
      this.#run();
    }
  }

  #run() {
    const stack = this.#stack;
    while (stack.length > 0) {
      const at = stack[stack.length - 1];
      let c;
      if (at.list !== null) c = at.i < at.list.length ? at.list[at.i++] : null;
      else if ((c = at.next) !== null) at.next = nextSibling(c);
      if (c === null) {
        stack.pop();
        this.#close(at);
        continue;
      }
      if (late() || this.nodes.length >= MOST_NODES || this.chars >= MOST_CHARS) {
        this.unread = Math.max(documentTags(document, "*").length - this.visited, 1);
        for (this.#flush(); stack.length > 0; ) this.#close(stack.pop());
        return;
      }
      const type = nodeType(c);
      if (type === TEXT) {
        if (at.told && at.seen) this.#say(at, data(c));
      } else if (type === ELEMENT) this.#element(c, at);
    }
    this.#flush();
  }

  #say(at, text) {
    if (this.#text === "") this.#frame = at;
    if (this.#text.length < MOST_PIECES * NAME_BYTES * 2) this.#text += text.length > MUCH ? text.slice(0, MOST_PIECES * NAME_BYTES * 2) : text;
  }

  // open begins with the children of an element.
  #open(el, frame, seen) {
    const all = childrenOf(el);
    frame.seen = seen;
    frame.list = Array.isArray(all) ? all : null;
    frame.next = frame.list === null ? all : null;
    frame.i = 0;
    this.#stack.push(frame);
  }

  #element(el, at) {
    this.visited++;
    const tag = tagOf(el);
    if (UNREAD.has(tag) || UNDRAWN.has(tag)) return;
    if (tag === "br") return at.told && at.seen ? this.#say(at, " ") : undefined;
    const bare = !hasAttributes(el);
    if (!bare && ignored(el)) return;
    if (at.shut && tag !== "summary") return;
    const style = styleOf(el), display = style.display;
    if (display === "none") return;
    const seen = style.visibility === "visible";
    const skipped = FALLBACK.has(tag) || (!bare && style.contentVisibility === "hidden");
    const role = bare ? nativeRole(el, tag) : roleOf(el);
    const acts = seen && (bare ? WIDGETS.has(role) || role === "label" : actionable(el, role));
    if (!acts && (PLAIN.has(role) || !seen || !at.told)) {
      if (skipped) return;
      const inner = { depth: at.depth, node: at.node, told: at.told && !this.#toldElsewhere(el, tag), apart: at.told && !FLOWING.has(display) };
      if (inner.apart) this.#flush();
      return this.#open(el, inner, seen);
    }
    const { name, content } = this.#namer.name(el, role);
    if (role === "img" && name === "" && !acts) {
      if (tag !== "svg:svg" || queryIn(el, IN_DRAWING) === null) return;
      this.#flush();
      return this.#open(el, { depth: at.depth, node: at.node, told: at.told, apart: true }, true);
    }
    this.#flush();
    const i = this.nodes.length;
    this.#add(this.#node(el, tag, role, name, at.depth, acts, bare));
    if (LEAVES.has(role)) return;
    if (skipped) return this.#close({ node: i, line: true });
    const shut = tag === "details" && !detailsOpen(el);
    this.#open(el, { depth: at.depth + 1, node: i, told: !content && !OPAQUE.has(role) && !shut, shut, line: true }, true);
  }

  // toldElsewhere says whether the text of an element is the name of another
  // one that is shown.
  #toldElsewhere(el, tag) {
    if (tag === "label") {
      const control = labelControl(el);
      return control !== null && !hasAttribute(control, "aria-label") && !hasAttribute(control, "aria-labelledby");
    }
    if (tag !== "legend" && tag !== "caption" && tag !== "figcaption") return false;
    const up = parentNode(el);
    return up !== null && isElement(up) && !hasAttribute(up, "aria-label") && !hasAttribute(up, "aria-labelledby");
  }

  // node tells of an element. One that acts gets a ref.
  #node(el, tag, role, name, depth, acts, bare) {
    const node = { d: depth, r: role === "generic" || PLAIN.has(role) ? "clickable" : role };
    if (name !== "") node.n = name;
    const value = bare && !acts && !LEAVES.has(role) ? undefined : valueOf(el, role);
    if (value !== undefined) {
      node.v = cut(collapse(some(value)), NAME_BYTES);
      if (secret(el)) node.p = true;
    }
    if (!bare || acts) {
      const states = statesOf(el, role, this.#active);
      if (states.length > 0) node.s = states;
    }
    if (role === "heading") node.l = Number.parseInt(getAttribute(el, "aria-level") ?? (/^h[1-6]$/.test(tag) ? tag[1] : "2"), 10) || 2;
    const does = acts ? doesWhat(el) : "";
    if (role === "link" || role === "iframe") {
      const to = leadsTo(el, tag, does);
      if (to !== "") node.t = to;
    }
    if (acts) {
      this.held.push({ ref: new WeakRef(el), print: printOf(el, role, name, does) });
      node.e = this.held.length;
    }
    return node;
  }

  #add(node) {
    this.nodes.push(node);
    this.chars += sizeOf(node);
  }

  // flush makes the text so far a node, or part of the line it stands in.
  #flush() {
    if (this.#text === "") return;
    const text = collapse(this.#text), at = this.#frame;
    this.#text = "";
    if (text === "") return;
    let parts = pieces(text, MOST_PIECES);
    const line = this.nodes[at.node];
    if (at.node === this.nodes.length - 1 && line !== undefined && line.n === undefined && TEXTED.has(line.r)) {
      line.n = parts[0];
      this.chars += parts[0].length;
      parts = parts.slice(1);
    }
    for (const n of parts) this.#add({ d: at.depth, r: "text", n });
  }

  // close ends an element: what turned out to be a mere wrapper is taken back.
  #close(at) {
    if (at.apart || at.line) this.#flush();
    if (!at.line) return;
    const i = at.node, line = this.nodes[i];
    if (line.e !== undefined || line.n !== undefined || line.v !== undefined) return;
    if (i === this.nodes.length - 1) {
      if (!STAYING.has(line.r)) this.nodes.pop();
    } else if (line.s === undefined && (line.r === "paragraph" || (i === this.nodes.length - 2 && WRAPPERS.has(line.r)))) {
      this.nodes.splice(i, 1);
      for (let k = i; k < this.nodes.length; k++) this.nodes[k].d--;
    }
  }
}

// sizeOf is about how many characters a node will take.
const sizeOf = (node) => 24 + 2 * Math.min(node.d, 24) + (node.n?.length ?? 0) + (node.v?.length ?? 0);

// leadsTo is where an address leads, if that is not this site: a host, or the
// scheme where it is not the web's.
const here = location.origin + "/";
function leadsTo(el, tag, written) {
  if (/^(#|\?|\/($|[\w.%-]))/.test(written) && baseURI(el).startsWith(here)) return "";
  const href = tag === "a" ? anchorHref(el) : tag === "area" ? areaHref(el) : tag === "iframe" ? frameSource(el) : "";
  if (href === "") return "";
  const url = URL.parse(href);
  if (url === null) return "";
  if (url.protocol !== "http:" && url.protocol !== "https:") return url.protocol;
  return url.host === location.host ? "" : url.host;
}
