// Every button with data-press tells the site when it is pressed.
addEventListener("click", (event) => {
  const button = event.target.closest("[data-press]");
  if (button) fetch("/press/" + button.dataset.press, { method: "POST", keepalive: true });
});
