"use strict";
// A click (or Enter) on a source line or an instruction marks everything that belongs to the line, on both sides.
document.querySelectorAll(".listing").forEach((listing) => {
  const rows = [...listing.querySelectorAll("tr[data-line]")];
  const mark = (chosen) => {
    const again = chosen.classList.contains("on") && listing.dataset.chosen === chosen.dataset.line;
    rows.forEach((row) => {
      const on = !again && row.dataset.line === chosen.dataset.line;
      row.classList.toggle("on", on);
      row.setAttribute("aria-selected", on ? "true" : "false");
    });
    listing.dataset.chosen = again ? "" : chosen.dataset.line;
    if (again) return;
    const here = chosen.closest(".scroll");
    listing.querySelectorAll(".scroll").forEach((box) => {
      const first = box.querySelector("tr.on");
      if (box !== here && first) box.scrollTop = first.offsetTop - box.clientHeight / 3;
    });
  };
  rows.forEach((row) => {
    row.tabIndex = 0;
    row.addEventListener("click", () => mark(row));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        mark(row);
      }
    });
  });
  // Each side begins at its hottest row.
  listing.querySelectorAll(".scroll").forEach((box) => {
    const hottest = [...box.querySelectorAll("tr[data-share]")].sort((a, b) => b.dataset.share - a.dataset.share)[0];
    if (hottest) box.scrollTop = Math.max(0, hottest.offsetTop - box.clientHeight / 3);
  });
});
