/* A preset sets the fields of its plug-ins, an edit of one of them leaves the preset, and both ask the server what
   saving would change. The cards carry the texts of their fields: {field name: text}. */
"use strict";

(() => {
  const KINDS = ["policy", "placement", "admission"];
  let applying = false;
  let asked = 0;

  const isSetting = (name) => KINDS.some((kind) => name === kind || name.startsWith(`${kind}__`));

  function apply(form, fields) {
    applying = true;
    for (const [name, text] of Object.entries(fields)) {
      const field = form.elements[name];
      if (!field) continue;
      field.value = text;
      // The skin shows and hides fields by these events.
      for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
    }
    applying = false;
  }

  function choosePreset(form) {
    const cards = [...form.querySelectorAll("input[name=preset]")];
    const own = cards.find((card) => card.value === "");
    const fits = (card) =>
      card !== own &&
      Object.entries(JSON.parse(card.dataset.fields)).every(
        ([name, text]) => String(form.elements[name]?.value ?? "") === String(text),
      );
    (cards.find(fits) ?? own).checked = true;
  }

  async function refresh(form, box) {
    const turn = ++asked;
    await new Promise((done) => setTimeout(done, 200));
    if (turn !== asked) return;
    const answer = await fetch(box.dataset.preview, { method: "POST", body: new FormData(form) });
    const text = answer.ok ? await answer.text() : "What this changes could not be loaded.";
    if (turn === asked) box.innerHTML = text;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const form = document.querySelector("#pool_form");
    if (!form) return;
    const box = form.querySelector("[data-preview]");
    form.addEventListener("input", ({ target }) => {
      if (applying || !target.name) return;
      if (target.name === "preset") apply(form, JSON.parse(target.dataset.fields));
      else if (isSetting(target.name)) choosePreset(form);
      else return;
      if (box?.dataset.preview) refresh(form, box);
    });
  });
})();
