"use strict";
// A click (or Enter) on a source line or an instruction marks everything that belongs to the line, on both sides.
document.querySelectorAll(".listing").forEach((listing) => {
  const rows = [...listing.querySelectorAll("tr[data-line]")];
  const mark = (chosen) => {
    const again = chosen.classList.contains("on") && listing.dataset.chosen === chosen.dataset.line;
    rows.forEach((row) => {
      const on = !again && row.dataset.line === chosen.dataset.line;
      row.classList.toggle("on", on);
      if (on) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
    listing.dataset.chosen = again ? "" : chosen.dataset.line;
    if (again) return;
    const here = chosen.closest(".scroll");
    listing.querySelectorAll(".scroll").forEach((box) => {
      const first = box.querySelector("tr.on");
      if (box !== here && first) box.scrollTop = first.offsetTop - box.clientHeight / 3;
    });
  };
  // Of each side one row is reached by Tab, and the others from it by the arrow keys, Home and End.
  listing.querySelectorAll(".scroll").forEach((box) => {
    const here = rows.filter((row) => box.contains(row));
    const choose = (row) => here.forEach((other) => { other.tabIndex = other === row ? 0 : -1; });
    choose(here[0]);
    here.forEach((row, i) => {
      row.addEventListener("click", () => { choose(row); mark(row); });
      row.addEventListener("keydown", (event) => {
        const steps = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: here.length - 1 };
        const next = here[steps[event.key]];
        if (event.key === "Enter" || event.key === " ") mark(row);
        else if (next) { choose(next); next.focus(); }
        else return;
        event.preventDefault();
      });
    });
  });
  // Each side begins at its hottest row.
  listing.querySelectorAll(".scroll").forEach((box) => {
    const hottest = [...box.querySelectorAll("tr[data-share]")].sort((a, b) => b.dataset.share - a.dataset.share)[0];
    if (hottest) box.scrollTop = Math.max(0, hottest.offsetTop - box.clientHeight / 3);
  });
});
// The table of launches: a click on a heading sorts by it, again in the other direction; a text filters its rows.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim().replace(/^same$/, "0");
    const value = parseFloat(cell.dataset.value || text.replace(/[,<%]/g, ""));
    return heads[column].classList.contains("num") ? (Number.isNaN(value) ? -Infinity : value) : text;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("num");
      const was = head.getAttribute("aria-sort");
      const up = was === "none" ? !numeric : was === "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.sort((a, b) => {
        const x = key(a, column);
        const y = key(b, column);
        const order = numeric ? (x < y ? -1 : x > y ? 1 : 0) : x.localeCompare(y, "en", { numeric: true });
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
  const box = document.createElement("div");
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("output");
  box.className = "filter";
  input.type = "search";
  label.append("Filter ", input);
  box.append(label, count);
  table.closest(".scroll").before(box);
  const parts = [...document.querySelectorAll("section.launch > details")];
  if (table.closest("#launches") && parts.length > 1) {
    [["Collapse all", false], ["Expand all", true]].forEach(([name, open]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => parts.forEach((part) => { part.open = open; }));
      box.append(button);
    });
  }
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} launches`;
  });
});
// A link to a launch, or to a part of one, opens what holds it; on narrow screens the contents begin closed.
const reveal = (hash) => {
  const target = hash && document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!target) return null;
  for (let at = target.querySelector(":scope > details") || target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  return target;
};
addEventListener("hashchange", () => { const target = reveal(location.hash); if (target) target.scrollIntoView(); });
reveal(location.hash);
// In a notebook's frame an address without a page would be the notebook's.
if (location.protocol === "about:") {
  document.querySelectorAll('a[href^="#"]').forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    const target = reveal(link.getAttribute("href"));
    if (!target) return;
    target.scrollIntoView();
    if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
    target.focus({ preventScroll: true });
  }));
}
if (matchMedia("(max-width: 1100px)").matches) document.querySelector("nav.contents details").open = false;
