// Renders the rows again with a new one on top. As a framework without keys
// does, it reuses the nodes by position: the button that said Edit now deletes.
document.getElementById("again").addEventListener("click", () => {
  const rows = document.getElementById("rows");
  const last = document.createElement("li");
  last.append(document.createElement("button"));
  rows.append(last);
  ["delete", "edit", "delete"].forEach((what, i) => {
    const button = rows.children[i].firstElementChild;
    button.dataset.press = what;
    button.textContent = what === "edit" ? "Edit" : "Delete";
  });
});
