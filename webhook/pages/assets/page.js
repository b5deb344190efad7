// Filters of a page. Items are elements with data-item; their text is searched, and their data-NAME lists the values of a
// facet, separated by spaces. A group (data-group is its name) without visible items is hidden, and so is an element with
// data-outer without visible groups. A section (data-section) shows how many of its items are visible.
"use strict";
(() => {
  const filters = () => [...document.querySelectorAll("[data-filter]")];

  // The name of a group counts as text of its items.
  const groupOf = (item) => item.closest("[data-group]");
  const textOf = (item) => `${groupOf(item)?.dataset.group ?? ""} ${item.textContent}`.toLowerCase();

  function matches(item, wanted) {
    return wanted.every(({ facet, value }) => {
      if (!value) return true;
      if (facet === "text") return textOf(item).includes(value);
      return item.dataset[facet] === undefined || item.dataset[facet].split(" ").includes(value);
    });
  }

  function apply() {
    const wanted = filters().map((each) => ({
      facet: each.dataset.filter,
      value: each.dataset.filter === "text" ? each.value.trim().toLowerCase() : each.value,
    }));
    for (const section of document.querySelectorAll("[data-section]")) {
      const items = [...section.querySelectorAll("[data-item]")];
      for (const item of items) item.hidden = !matches(item, wanted);
      for (const group of section.querySelectorAll("[data-group]:not([data-item])")) {
        const own = [...group.querySelectorAll("[data-item]")];
        group.hidden = own.length > 0 && own.every((item) => item.hidden);
      }
      for (const outer of section.querySelectorAll("[data-outer]")) {
        outer.hidden = [...outer.querySelectorAll("[data-group]")].every((group) => group.hidden);
      }
      const shown = items.filter((item) => !item.hidden).length;
      const count = section.querySelector("[data-count]");
      if (count) count.textContent = shown === items.length ? "" : `${shown} of ${items.length} shown`;
    }
  }

  document.addEventListener("input", (event) => {
    if (event.target.closest("[data-filter]")) apply();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-clear]")) return;
    for (const each of filters()) each.value = "";
    apply();
  });
  // Ticks of a page are kept in the browser, if it allows that; a box that the page ticks itself stays ticked.
  const boxes = [...document.querySelectorAll("[data-tick]")];
  const storedTicks = () => {
    try {
      return window.localStorage;
    } catch {
      return null;
    }
  };
  const keyOf = (box) => `gpu-admission ${document.title} ${box.dataset.tick}`;
  const countTicks = () => {
    const count = document.querySelector("[data-ticked]");
    if (count) count.textContent = `${boxes.filter((box) => box.checked).length} of ${boxes.length} ticked`;
  };
  for (const box of boxes) {
    if (storedTicks()?.getItem(keyOf(box)) === "ticked") box.checked = true;
    box.addEventListener("change", () => {
      storedTicks()?.setItem(keyOf(box), box.checked ? "ticked" : "open");
      countTicks();
    });
  }
  countTicks();
  // A page that replaces its parts filters the new ones.
  document.addEventListener("parts-replaced", apply);
  // Printing shows the tables behind the pictures.
  window.addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  for (const each of document.querySelectorAll(".filters")) each.hidden = false;
  apply();
})();
