"use strict";
// Charts: values under the pointer, and zoom by dragging. The numbers come from the table below each chart.
for (const figure of document.querySelectorAll('figure[data-chart="lines"]')) {
  const drawing = figure.querySelector("svg");
  const plot = drawing.querySelector("svg.plot");
  const table = figure.querySelector("table");
  if (!plot || !table) continue;
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const whole = plot.viewBox.baseVal;
  const full = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
  let seen = { x: full.x, width: full.width };
  let from = null;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const note = document.createElement("p");
  note.className = "zoomed";
  note.setAttribute("role", "status");
  note.hidden = true;
  figure.append(tip, note);

  const share = (event) => {
    const box = plot.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const placeOf = (part) => {
    // The plot has padding at both ends, as wide as its offset before zero.
    const at = (seen.x + part * seen.width) / (full.width + 2 * full.x);
    return Math.round(Math.min(1, Math.max(0, at)) * Math.max(1, rows.length - 1));
  };
  const look = (x, width) => {
    seen = { x, width };
    plot.setAttribute("viewBox", `${x} ${full.y} ${width} ${full.height}`);
    const closer = width < full.width;
    note.hidden = !closer;
    for (const name of drawing.querySelectorAll("text.place")) name.style.visibility = closer ? "hidden" : "";
    if (closer) {
      const ends = [placeOf(0), placeOf(1)].map((place) => (rows[place] || [""])[0]);
      note.textContent = `${names[0]} ${ends[0]} to ${ends[1]}. Double-click or press Escape to reset the zoom.`;
    }
  };
  drawing.addEventListener("pointermove", (event) => {
    const row = rows[placeOf(share(event))];
    if (!row) return;
    tip.textContent = row.map((value, column) => `${names[column]}: ${value}`).join("\n");
    tip.hidden = false;
    const box = figure.getBoundingClientRect();
    const left = event.clientX - box.left + 14;
    tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY - box.top + 14}px`;
  });
  drawing.addEventListener("pointerleave", () => { tip.hidden = true; });
  drawing.addEventListener("pointerdown", (event) => { from = share(event); });
  drawing.addEventListener("pointerup", (event) => {
    const to = share(event);
    if (from !== null && Math.abs(to - from) > 0.03 && rows.length > 3) {
      const left = Math.min(from, to);
      look(seen.x + left * seen.width, Math.abs(to - from) * seen.width);
    }
    from = null;
  });
  drawing.addEventListener("dblclick", () => look(full.x, full.width));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") look(full.x, full.width); });
}
// Commands: the address of this server, and a button that copies.
for (const box of document.querySelectorAll("pre.command")) {
  const code = box.querySelector("code");
  if (location.protocol.startsWith("http")) code.textContent = code.textContent.replaceAll("http://127.0.0.1:8787", location.origin);
  if (!navigator.clipboard) continue;
  const text = code.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}
// Annotation: keyboard shortcuts for the grade buttons.
const grades = document.querySelector("form.grades");
if (grades) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const button = grades.querySelector(`button[data-key="${CSS.escape(event.key)}"]`);
    if (button) { event.preventDefault(); button.click(); }
  });
}
// Lists: j and k move, x selects, Enter opens, / searches; copy the selection, or all rows, as Markdown or CSV.
const isTyping = (event) =>
  event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), textarea, select");
const list = document.querySelector("table.rows");
if (list) {
  const rows = [...list.tBodies[0].rows];
  let current = -1;
  const chosen = () => rows.filter((row) => row.classList.contains("chosen"));
  const tools = document.createElement("div");
  tools.className = "tools";
  const state = document.createElement("span");
  state.setAttribute("role", "status");
  const said = () => {
    const many = chosen().length;
    state.textContent = many ? `${many} selected` : "Keys: j and k move, Enter opens, x selects, / searches";
  };
  const choose = (row, on) => {
    row.classList.toggle("chosen", on);
    const box = row.querySelector("td.check input");
    if (box) box.checked = row.classList.contains("chosen");
    said();
  };
  list.addEventListener("change", (event) => {
    const row = event.target.closest("tr");
    if (row) choose(row, event.target.checked);
  });
  const texts = (row) =>
    [...row.cells].filter((cell) => !cell.querySelector("input, .hidden")).map((cell) => cell.innerText.trim().replace(/\s+/g, " "));
  const lines = () => {
    const names = [...list.tHead.rows[0].cells].filter((cell) => !cell.querySelector(".hidden"));
    const head = names.map((cell) => cell.textContent.replace(/ [↑↓]$/, "").trim());
    const picked = chosen();
    return [head, ...(picked.length ? picked : rows).map(texts)];
  };
  const markdown = () => {
    const all = lines().map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`);
    all.splice(1, 0, `|${" --- |".repeat(lines()[0].length)}`);
    return all.join("\n");
  };
  // A cell that starts like a formula is quoted, so that a spreadsheet does not compute it.
  const field = (cell) => `"${(/^[=+@\t-]/.test(cell) && !/^-?[\d.,]+( %| ms)?$/.test(cell) ? "'" + cell : cell).replaceAll('"', '""')}"`;
  const csv = () => lines().map((cells) => cells.map(field).join(",")).join("\r\n");
  if (navigator.clipboard) {
    for (const [name, make] of [["Copy as Markdown", markdown], ["Copy as CSV", csv]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(make());
          state.textContent = "Copied";
        } catch {
          state.textContent = "Not copied";
        }
      });
      tools.append(button);
    }
  }
  tools.append(state);
  said();
  list.closest(".wide").before(tools);
  document.addEventListener("keydown", (event) => {
    if (isTyping(event)) return;
    if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if ((event.key === "j" || event.key === "k") && rows.length) {
      rows[current]?.classList.remove("current");
      current = Math.min(rows.length - 1, Math.max(0, current + (event.key === "j" ? 1 : -1)));
      rows[current].classList.add("current");
      rows[current].scrollIntoView({ block: "nearest" });
      rows[current].querySelector("a")?.focus({ preventScroll: true });
    } else if (event.key === "x" && rows[current]) {
      choose(rows[current], !rows[current].classList.contains("chosen"));
    }
  });
} else {
  // Pages with a previous and a next one: k and j.
  document.addEventListener("keydown", (event) => {
    if (isTyping(event)) return;
    document.querySelector(`nav.pages a[data-key="${CSS.escape(event.key)}"]`)?.click();
  });
}
// Forms: remember the name of the person on this computer.
for (const field of document.querySelectorAll("input[data-remember]")) {
  try {
    const key = `satiety-${field.dataset.remember}`;
    if (!field.value) field.value = localStorage.getItem(key) || "";
    field.form?.addEventListener("submit", () => localStorage.setItem(key, field.value));
  } catch {
    // Storage is disabled; the field stays empty.
  }
}
// Live pages: reload when there is something new, unless paused.
const live = document.querySelector("[data-live]");
if (live && window.EventSource && location.protocol.startsWith("http")) {
  const source = new EventSource(live.dataset.live);
  const key = `satiety-paused-${location.pathname}`;
  const stored = (value) => {
    try {
      if (value !== undefined) sessionStorage.setItem(key, value);
      return sessionStorage.getItem(key);
    } catch {
      return null;
    }
  };
  let paused = stored() === "1";
  let waiting = 0;
  let timer = null;
  const bar = document.createElement("p");
  bar.className = "tools";
  const button = document.createElement("button");
  button.type = "button";
  const state = document.createElement("span");
  state.setAttribute("role", "status");
  bar.append(button, state);
  live.append(bar);
  const said = () => {
    button.textContent = paused ? "Resume updates" : "Pause updates";
    state.textContent = paused ? (waiting ? `Paused, ${waiting} new` : "Paused") : "Updates as they come";
  };
  const refresh = () => {
    if (!timer) timer = setTimeout(() => { source.close(); location.reload(); }, 1500);
  };
  button.addEventListener("click", () => {
    paused = !paused;
    stored(paused ? "1" : "0");
    if (!paused && waiting) refresh();
    said();
  });
  for (const name of (live.dataset.events || "verdict").split(" ")) {
    source.addEventListener(name, (event) => {
      if (Number(event.lastEventId) <= Number(live.dataset.rounds || 0)) return;
      waiting += 1;
      if (!paused) refresh();
      said();
    });
  }
  addEventListener("pagehide", () => source.close());
  said();
}
