// A button on every block of code. Of a console block it copies the commands alone: what
// stands after "$ ", and the lines that go on after a backslash.
function commandsOf(text) {
  const kept = [];
  let goesOn = false;
  for (const line of text.split("\n")) {
    if (goesOn || line.startsWith("$ ")) {
      kept.push(goesOn ? line : line.slice(2));
      goesOn = line.endsWith("\\");
    }
  }
  return kept.join("\n");
}

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    const kind = block.parentElement.className;
    if (kind.includes("highlight-output") || kind.includes("highlight-text")) continue;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      const text = block.querySelector("pre").textContent.trimEnd();
      const isConsole = kind.includes("highlight-console");
      try {
        await navigator.clipboard.writeText(isConsole ? commandsOf(text) : text);
        button.textContent = "copied";
      } catch {
        button.textContent = "not allowed";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    block.appendChild(button);
  }
});
