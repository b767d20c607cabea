// Where to press an element, and how to give it the focus. Nothing here sends
// input; no script of the page runs but what a change of focus calls.
const LOOK_MS = 500;

function aim(of, ref) {
  start(LOOK_MS);
  const found = observe(of, ref);
  if (found.refused) return found;
  const { el } = found;
  let at = pointOn(el);
  if (at.x === undefined) {
    scrollIntoView(el, { block: "center", inline: "center", behavior: "instant" });
    at = pointOn(el);
  }
  if (at.x === undefined) return at;
  return { x: at.x, y: at.y, ...holdings(el) };
}

// holdings is what takes the effect, and what it holds.
function holdings(el) {
  const value = valueOf(el, roleOf(el));
  return { kind: kindOf(el), value: value === undefined ? "" : cut(value.slice(0, READ_BYTES).toWellFormed(), READ_BYTES) };
}

// pointOn is a point of the viewport at which el would be hit: in the middle
// of one of its boxes, else nearer to its corners. A box or a radio button that
// a page draws by itself is pressed on its label.
function pointOn(el) {
  const own = hitOn(el, el);
  if (own.x !== undefined || tagOf(el) !== "input" || !(inputType(el) === "checkbox" || inputType(el) === "radio")) return own;
  for (const label of labelsOf(el).slice(0, 4)) {
    const at = hitOn(label, el);
    if (at.x !== undefined) return at;
  }
  return own;
}

const SPOTS = [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.25, 0.25], [0.75, 0.75], [0.05, 0.5], [0.95, 0.5]];

function hitOn(box, el) {
  const top = documentElement(document), width = clientWidth(top), height = innerHeight;
  let by = null, inView = false, any = false;
  const rects = clientRects(box);
  for (let i = 0; i < rects.length && i < 8; i++) {
    const r = rects[i];
    if (r.width < 1 || r.height < 1) continue;
    any = true;
    const left = Math.max(r.left, 0), right = Math.min(r.right, width), up = Math.max(r.top, 0), down = Math.min(r.bottom, height);
    if (right - left < 1 || down - up < 1) continue;
    inView = true;
    for (const [fx, fy] of SPOTS) {
      const x = left + (right - left) * fx, y = up + (down - up) * fy;
      const hit = deepHit(x, y);
      if (hit === null) continue;
      if (takes(hit, el)) return { x, y };
      by ??= hit;
    }
  }
  if (!any) return { refused: "hidden" };
  if (!inView || by === null) return { refused: "offscreen" };
  return { refused: "covered", by: nameTag(by) };
}

// deepHit is what a press at a point would hit, in shadow roots too.
function deepHit(x, y) {
  let hit = hitIn(document, x, y);
  for (let i = 0; hit !== null && i < 64; i++) {
    const root = shadowRoot(hit);
    const inner = root === null ? null : hitIn(root, x, y);
    if (inner === null || inner === hit) break;
    hit = inner;
  }
  return hit;
}

// takes says whether el gets the press of what is hit: it is that or around
// it, with nothing between that would take the press for itself, or it is the
// control of the label that is hit.
function takes(hit, el) {
  for (let at = hit; at !== null; at = parent(at)) {
    if (at === el) return true;
    const tag = tagOf(at);
    if (tag === "label" && labelControl(at) !== null) return labelControl(at) === el;
    if (WIDGETS.has(roleOf(at))) return false;
  }
  return false;
}

function nameTag(el) {
  const id = elementId(el);
  return cut(collapse(localName(el) + (id === "" ? "" : "#" + id)), 64);
}

// focus gives el the focus and selects what is in it, or puts the caret at its
// end.
function focus(of, ref, append) {
  start(LOOK_MS);
  const found = observe(of, ref);
  if (found.refused) return found;
  const { el } = found;
  if (!takesText(el)) return { refused: "not_editable" };
  if (readOnly(el)) return { refused: "readonly" };
  scrollIntoView(el, { block: "nearest", inline: "nearest", behavior: "instant" });
  setFocus(el, { preventScroll: true });
  // The page's own handlers have run: look again.
  if (!isConnected(el) || !takesText(el) || readOnly(el)) return { refused: "focus_refused" };
  const active = focused();
  if (active !== el && !(active !== null && holds(active, el) && isContentEditable(el))) return { refused: "focus_refused" };
  caret(el, append);
  const r = boundingRect(el);
  return { x: r.left + r.width / 2, y: r.top + r.height / 2, ...holdings(el) };
}

function takesText(el) {
  const tag = tagOf(el);
  return tag === "textarea" || (tag === "input" ? TYPED.has(inputType(el)) : el instanceof HTMLElement && isContentEditable(el));
}

function caret(el, append) {
  const tag = tagOf(el), selection = documentSelection(document);
  if (tag !== "input" && tag !== "textarea") {
    selectChildren(selection, el);
    if (append) collapseToEnd(selection);
    return;
  }
  (tag === "input" ? inputSelect : areaSelect)(el);
  if (!append) return;
  if (tag === "textarea") return areaRange(el, areaValue(el).length, areaValue(el).length);
  const type = inputType(el);
  if (type === "email" || type === "number") return moveCaret(selection, "move", "forward", "lineboundary"); // these have no range
  inputRange(el, inputValue(el).length, inputValue(el).length);
}

const READ_BYTES = 4096;

// read gives what el holds now, whatever it is called now.
function read(of, ref) {
  const found = find(of, ref);
  return found.refused ? found : holdings(found.el);
}
