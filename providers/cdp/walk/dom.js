// What the walker reads of a page is hostile: a form with a field called
// "parentNode" answers form.parentNode with that field. So nothing is read by
// name from a node; every getter is taken from its prototype here, once, in a
// world where no page has been.
const call = Function.prototype.call;
const method = (proto, name) => call.bind(proto[name]);
const getter = (proto, name) => call.bind(Object.getOwnPropertyDescriptor(proto, name).get);

const nodeType = getter(Node.prototype, "nodeType");
const baseURI = getter(Node.prototype, "baseURI");
const firstChild = getter(Node.prototype, "firstChild");
const nextSibling = getter(Node.prototype, "nextSibling");
const parentNode = getter(Node.prototype, "parentNode");
const isConnected = getter(Node.prototype, "isConnected");
const textContent = getter(Node.prototype, "textContent");
const getRootNode = method(Node.prototype, "getRootNode");
const holds = method(Node.prototype, "contains");
const position = method(Node.prototype, "compareDocumentPosition");
const data = getter(CharacterData.prototype, "data");

const localName = getter(Element.prototype, "localName");
const namespaceURI = getter(Element.prototype, "namespaceURI");
const elementId = getter(Element.prototype, "id");
const getAttribute = method(Element.prototype, "getAttribute");
const hasAttribute = method(Element.prototype, "hasAttribute");
const hasAttributes = method(Element.prototype, "hasAttributes");
const shadowRoot = getter(Element.prototype, "shadowRoot");
const assignedSlot = getter(Element.prototype, "assignedSlot");
const matches = method(Element.prototype, "matches");
const queryIn = method(Element.prototype, "querySelector");
const closest = method(Element.prototype, "closest");
const checkVisibility = method(Element.prototype, "checkVisibility");
const boundingRect = method(Element.prototype, "getBoundingClientRect");
const clientRects = method(Element.prototype, "getClientRects");
const clientWidth = getter(Element.prototype, "clientWidth");
const clientHeight = getter(Element.prototype, "clientHeight");
const scrollIntoView = method(Element.prototype, "scrollIntoView");
const assignedNodes = method(HTMLSlotElement.prototype, "assignedNodes");
const isContentEditable = getter(HTMLElement.prototype, "isContentEditable");
const innerText = getter(HTMLElement.prototype, "innerText");
const setFocus = method(HTMLElement.prototype, "focus");

const inputType = getter(HTMLInputElement.prototype, "type");
const inputValue = getter(HTMLInputElement.prototype, "value");
const inputFiles = getter(HTMLInputElement.prototype, "files");
const inputForm = getter(HTMLInputElement.prototype, "form");
const inputFormAction = getter(HTMLInputElement.prototype, "formAction");
const inputChecked = getter(HTMLInputElement.prototype, "checked");
const inputIndeterminate = getter(HTMLInputElement.prototype, "indeterminate");
const inputSelect = method(HTMLInputElement.prototype, "select");
const inputRange = method(HTMLInputElement.prototype, "setSelectionRange");
const areaValue = getter(HTMLTextAreaElement.prototype, "value");
const areaSelect = method(HTMLTextAreaElement.prototype, "select");
const areaRange = method(HTMLTextAreaElement.prototype, "setSelectionRange");
const selectOptions = getter(HTMLSelectElement.prototype, "selectedOptions");
const selectMultiple = getter(HTMLSelectElement.prototype, "multiple");
const optionSelected = getter(HTMLOptionElement.prototype, "selected");
const optionLabel = getter(HTMLOptionElement.prototype, "label");
const anchorHref = getter(HTMLAnchorElement.prototype, "href");
const areaHref = getter(HTMLAreaElement.prototype, "href");
const frameSource = getter(HTMLIFrameElement.prototype, "src");
const buttonForm = getter(HTMLButtonElement.prototype, "form");
const buttonFormAction = getter(HTMLButtonElement.prototype, "formAction");
const buttonType = getter(HTMLButtonElement.prototype, "type");
const formAction = getter(HTMLFormElement.prototype, "action");
const formMethod = getter(HTMLFormElement.prototype, "method");
const labelControl = getter(HTMLLabelElement.prototype, "control");
const detailsOpen = getter(HTMLDetailsElement.prototype, "open");
const meterValue = getter(HTMLMeterElement.prototype, "value");
const progressValue = getter(HTMLProgressElement.prototype, "value");

const shadowHost = getter(ShadowRoot.prototype, "host");
const documentElement = getter(Document.prototype, "documentElement");
const documentTags = method(Document.prototype, "getElementsByTagName");
const documentSelection = method(Document.prototype, "getSelection");
const selectChildren = method(Selection.prototype, "selectAllChildren");
const collapseToEnd = method(Selection.prototype, "collapseToEnd");
const moveCaret = method(Selection.prototype, "modify");

// What a document and a shadow root both have, each from its own prototype.
const both = (name, take) => {
  const ofDocument = take(Document.prototype, name), ofShadow = take(ShadowRoot.prototype, name);
  return (root, ...args) => (nodeType(root) === DOCUMENT ? ofDocument(root, ...args) : isShadow(root) ? ofShadow(root, ...args) : null);
};
const byId = both("getElementById", method);
const queryAll = both("querySelectorAll", method);
const activeIn = both("activeElement", getter);
const hitIn = both("elementFromPoint", method);
const styleOf = getComputedStyle;

const ELEMENT = 1, TEXT = 3, DOCUMENT = 9, FRAGMENT = 11;
const HTML = "http://www.w3.org/1999/xhtml";
const isElement = (node) => nodeType(node) === ELEMENT;
const isShadow = (node) => nodeType(node) === FRAGMENT && node instanceof ShadowRoot;

// tagOf is the element's tag; outside of HTML it has a prefix, so that no
// rule for HTML applies.
const tagOf = (el) => (namespaceURI(el) === HTML ? localName(el) : "svg:" + localName(el));

// childrenOf tells where the children of a node are as they are rendered: a
// shadow root in place of what its host holds, and in a slot what is put there.
// It answers with an array for a filled slot, else with the first child.
function childrenOf(node) {
  const root = shadowRoot(node);
  if (root !== null) return firstChild(root);
  if (localName(node) === "slot" && tagOf(node) === "slot") {
    const given = assignedNodes(node, { flatten: true });
    if (given.length > 0) return given;
  }
  return firstChild(node);
}

// children visits them. It stops when visit returns false.
function children(node, visit) {
  const all = childrenOf(node);
  if (Array.isArray(all)) {
    for (const c of all) if (visit(c) === false) return;
    return;
  }
  for (let c = all; c !== null; c = nextSibling(c)) if (visit(c) === false) return;
}

// parent is the element above as rendered, across slots and shadow roots; null
// above the topmost one.
function parent(el) {
  const up = assignedSlot(el) ?? parentNode(el);
  if (up === null) return null;
  if (isElement(up)) return up;
  return isShadow(up) ? shadowHost(up) : null;
}

// drawn says whether an element is drawn, wherever it stands. A walk from the
// top knows what is above and asks the style alone, which takes half the time.
const rendered = { visibilityProperty: true };
function drawn(el) {
  for (let at = el; at !== null; at = parent(at)) {
    if (checkVisibility(at, rendered)) return true;
    const s = styleOf(at);
    if (s.display !== "contents" || s.visibility !== "visible") return false; // without a box of its own: that above decides
  }
  return false;
}

// ignored says whether a page has taken an element and all that is in it out
// of what is told to people.
const ignored = (el) => getAttribute(el, "aria-hidden") === "true" || hasAttribute(el, "inert");

// Every look at a page has a time by which it ends. late asks the clock only
// now and then.
let deadline = 0, asked = 0;
function start(ms) {
  deadline = performance.now() + ms;
  asked = 0;
}
const late = () => (++asked & 31) === 0 && performance.now() > deadline;
