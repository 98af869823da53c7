/* Says below each quota field what the pool has, what others are promised, and what the quota leaves.
   The fields carry the capacities: {pool id: {name, types: {GPU type: [total, promised to others]}}}. */
"use strict";

(() => {
  const FIELD = "[data-quota-of]";

  function poolOf(capacities, field) {
    // A quota of an organisation or a tenant names its pool in its row.
    const ofRow = /-(gpus|gpu_type)$/.test(field.id) && document.getElementById(field.id.replace(/[^-]+$/, "pool"));
    const chosen = ofRow || document.querySelector("#id_pool");
    return chosen ? capacities[chosen.value] : Object.values(capacities)[0];
  }

  function typeSelectOf(field) {
    return document.getElementById(field.id.replace(/-gpus$/, "-gpu_type"));
  }

  function sentence(field, pool) {
    const type = field.dataset.gpuType ?? typeSelectOf(field)?.value;
    if (!pool || !type) return { text: "", bad: false };
    const [total, promised] = pool.types[type] ?? [0, 0];
    const available = Math.max(total - promised, 0);
    const wanted = field.value === "" ? null : Number(field.value);
    const has = `Pool ${pool.name} has ${total} ${type}; others are promised ${promised}.`;
    if (wanted === null || !Number.isInteger(wanted) || wanted < 0)
      return { text: `${has} At most ${available} can be promised here.`, bad: false };
    if (wanted > available)
      return { text: `${has} ${wanted} is ${wanted - available} too many: at most ${available}.`, bad: true };
    return { text: `${has} With ${wanted} here, ${available - wanted} stay free.`, bad: false };
  }

  function offerTypes(select, pool) {
    for (const option of select.options) {
      const offered = option.value === "" || !pool || option.value in pool.types || option.selected;
      option.hidden = option.disabled = !offered;
    }
  }

  function refresh() {
    for (const select of document.querySelectorAll("[data-quota-type-of]"))
      offerTypes(select, poolOf(JSON.parse(select.dataset.quotaTypeOf), select));
    for (const field of document.querySelectorAll(FIELD)) {
      if (field.id.includes("__prefix__")) continue;
      let hint = field.parentElement.querySelector(".quota-hint");
      if (!hint) {
        hint = document.createElement("p");
        hint.className = "quota-hint";
        hint.id = `${field.id}_hint`;
        hint.setAttribute("aria-live", "polite");
        field.parentElement.append(hint);
        field.setAttribute("aria-describedby", hint.id);
      }
      const pool = poolOf(JSON.parse(field.dataset.quotaOf), field);
      if (field.dataset.gpuType) {
        // What is hidden is disabled too, so that the browser does not send it.
        field.disabled = !(pool && field.dataset.gpuType in pool.types);
        field.closest(".form-row").hidden = field.disabled;
      }
      const { text, bad } = sentence(field, pool);
      hint.textContent = text;
      hint.classList.toggle("quota-hint-bad", bad);
      field.setCustomValidity(bad ? text : "");
      // What the platform refused stands below its field until another number is there; then the hint says it all.
      const refusal = field.parentElement.querySelector(".text-red-600");
      const stands = refusal !== null && field.value === field.defaultValue;
      if (refusal) refusal.hidden = !stands;
      hint.hidden = stands && bad;
      field.setAttribute("aria-invalid", String(bad));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const event of ["input", "change", "formset:added"]) document.addEventListener(event, refresh);
    refresh();
  });
})();
