const answer = document.getElementById("answer");
document.getElementById("alert").addEventListener("click", () => alert("hi"));
document.getElementById("ask").addEventListener("click", () => (answer.textContent = prompt("Your name?")));
document.getElementById("pay").addEventListener("click", () => {
  if (confirm("Pay 1 €?")) fetch("/press/pay", { method: "POST" });
});
if (location.search === "?onload") alert("hi");
if (location.search === "?leave") addEventListener("beforeunload", (event) => event.preventDefault());
