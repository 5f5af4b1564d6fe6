# SPDX-License-Identifier: Apache-2.0
# For images whose packages are installed by an unpatched dpkg: OE-Core's own
# dpkg gives maintainer scripts the root's path in D, and before dpkg is
# started OE-Core does not set it.
python debian_rootfs_scripts() {
    import os
    for name in ("D", "OFFLINE_ROOT", "IPKG_OFFLINE_ROOT", "OPKG_OFFLINE_ROOT"):
        os.environ[name] = d.getVar("IMAGE_ROOTFS")
    os.environ["NATIVE_ROOT"] = d.getVar("STAGING_DIR_NATIVE")
}
DEB_PREPROCESS_COMMANDS += "debian_rootfs_scripts"

# no SDK is made of the image: it would want a compiler that is built
python () {
    for task in ("do_populate_sdk", "do_populate_sdk_ext", "do_sdk_depends"):
        bb.build.deltask(task, d)
}
