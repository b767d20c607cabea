document.getElementById("open").addEventListener("click", () => window.open("/login", "", "width=400,height=300"));
