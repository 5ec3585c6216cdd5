"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("draw"), rows = document.querySelectorAll("table.draws tbody tr");
const whole = (value) => Math.round(value).toLocaleString("en-US");
function show() {
  const chosen = data.draws[+slider.value];
  let picture = data.pictures[0];
  for (const one of data.pictures) if (one.after <= chosen.number) picture = one;
  document.getElementById("picture").src = picture.image;
  document.getElementById("picture").alt = `The target after ${chosen.label}`;
  document.getElementById("late").hidden = picture.after === chosen.number;
  document.getElementById("label").textContent = chosen.label;
  for (const lane of document.querySelectorAll("[data-stage]")) {
    const span = chosen.spans[lane.dataset.stage];
    lane.innerHTML = span ? `<i style="left:${100 * span[0] / data.cycles}%;width:${100 * (span[1] - span[0]) / data.cycles}%"></i>` : "";
    lane.title = span ? `${whole(span[0])} to ${whole(span[1])}` : "no work";
    lane.closest("tr").querySelector("[data-cycles]").textContent = span ? whole(span[1] - span[0]) : "";
  }
  rows.forEach((row, n) => row.classList.toggle("on", n === +slider.value));
}
slider.addEventListener("input", show);
rows.forEach((row, n) => row.addEventListener("click", () => { slider.value = n; show(); }));
show();
