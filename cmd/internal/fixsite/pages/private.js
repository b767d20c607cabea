document.getElementById("add").addEventListener("click", async () => {
  const answer = await fetch("/cart", { method: "POST" });
  document.getElementById("count").textContent = await answer.text();
});
