// Roles, as HTML-AAM has them and Chromium does them.
const ROLES = words("alert alertdialog application article banner blockquote button caption cell checkbox code columnheader combobox complementary contentinfo definition deletion dialog document emphasis feed figure form generic grid gridcell group heading img image insertion link list listbox listitem log main marquee math menu menubar menuitem menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar radio radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status strong subscript superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree treegrid treeitem");
// Roles that are for acting on.
const WIDGETS = words("button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option radio searchbox slider spinbutton switch tab textbox treeitem date time color");
// Roles that are named by what is in them, and those of them of which what is
// in them is no news beyond the name.
const FROM_CONTENT = words("button checkbox columnheader gridcell heading label link menuitem menuitemcheckbox menuitemradio option radio rowheader switch tab tooltip treeitem");
const OPAQUE = words("button checkbox menuitemcheckbox menuitemradio option radio switch tab");
// Roles that are no line of their own.
const PLAIN = words("generic none presentation rowgroup deletion insertion emphasis strong code subscript superscript time term definition document application");
const BY_TAG = {
  article: "article", aside: "complementary", blockquote: "blockquote", button: "button", dd: "definition", details: "group", dialog: "dialog", dt: "term", fieldset: "group", figure: "figure",
  form: "form", h1: "heading", h2: "heading", h3: "heading", h4: "heading", h5: "heading", h6: "heading", hr: "separator", iframe: "iframe",
  li: "listitem", main: "main", menu: "list", meter: "meter", nav: "navigation", ol: "list", optgroup: "group", option: "option", output: "status",
  p: "paragraph", progress: "progressbar", search: "search", section: "region", table: "table", td: "cell", textarea: "textbox", tr: "row", ul: "list",
};
const BY_TYPE = {
  button: "button", checkbox: "checkbox", color: "color", date: "date", "datetime-local": "date", file: "button", image: "button", month: "date",
  number: "spinbutton", radio: "radio", range: "slider", reset: "button", search: "searchbox", submit: "button", time: "time", week: "date", hidden: "none",
};
const LISTED = words("text search email tel url");
const SECTIONS = words("article aside main nav section");

function focusable(el) {
  switch (tagOf(el)) {
    case "a": case "area": return hasAttribute(el, "href");
    case "button": case "input": case "select": case "textarea": return !matches(el, ":disabled");
    case "summary": case "iframe": return true;
  }
  return hasAttribute(el, "tabindex") || editingHost(el);
}

// editingHost says whether el is where a piece of editable text begins.
function editingHost(el) {
  const v = getAttribute(el, "contenteditable");
  return v !== null && v.toLowerCase() !== "false" && el instanceof HTMLElement && isContentEditable(el);
}

function roleOf(el) {
  const given = getAttribute(el, "role");
  if (given !== null) {
    for (const word of given.slice(0, 256).toLowerCase().split(/\s+/)) {
      if (!ROLES.has(word)) continue;
      if (word !== "none" && word !== "presentation") return word === "image" ? "img" : word;
      if (!focusable(el)) return "none";
      break;
    }
  }
  return nativeRole(el, tagOf(el));
}

function nativeRole(el, tag) {
  switch (tag) {
    case "a": case "area": return hasAttribute(el, "href") ? "link" : "generic";
    case "svg:a": return hasAttribute(el, "href") || hasAttribute(el, "xlink:href") ? "link" : "generic";
    case "svg:svg": return "img";
    case "input": {
      const type = inputType(el);
      if (LISTED.has(type) && hasAttribute(el, "list")) return "combobox";
      return BY_TYPE[type] ?? "textbox";
    }
    case "select": return selectMultiple(el) || Number(getAttribute(el, "size")) > 1 ? "listbox" : "combobox";
    case "img": return getAttribute(el, "alt") === "" && !hasAttribute(el, "title") && !hasAttribute(el, "aria-label") ? "none" : "img";
    case "summary": {
      const up = parentNode(el);
      return up !== null && isElement(up) && tagOf(up) === "details" ? "button" : "generic";
    }
    case "th": return getAttribute(el, "scope") === "row" ? "rowheader" : "columnheader";
    case "label": return standsFor(el) ? "label" : "generic";
    case "header": case "footer": {
      let up = parent(el);
      for (let i = 0; up !== null && i < 64; i++, up = parent(up)) if (SECTIONS.has(tagOf(up))) return "generic";
      return tag === "header" ? "banner" : "contentinfo";
    }
  }
  const role = BY_TAG[tag];
  if (role === undefined) return editingHost(el) ? "textbox" : "generic";
  if ((role === "form" || role === "region") && !hasAttribute(el, "aria-label") && !hasAttribute(el, "aria-labelledby") && !hasAttribute(el, "title")) return "generic";
  return role;
}

// standsFor says whether a label is all that is drawn of its control: a box or
// switch of a page's own making. Then the label is what is pressed.
function standsFor(label) {
  const control = labelControl(label);
  return control !== null && !drawn(control);
}

// actionable says whether el gets a ref.
function actionable(el, role) {
  if (WIDGETS.has(role) || role === "label") return true;
  if (hasAttribute(el, "onclick")) return true;
  const index = getAttribute(el, "tabindex");
  return (index !== null && Number.parseInt(index, 10) >= 0) || editingHost(el);
}

function disabled(el) {
  if (matches(el, ":disabled")) return true;
  const said = closest(el, "[aria-disabled]");
  return said !== null && getAttribute(said, "aria-disabled") === "true";
}
